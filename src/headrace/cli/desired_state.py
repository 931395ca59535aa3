"""headrace export, plan and apply: a database as files of SQL, and files of SQL as the desired state."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from headrace.cli import exit_codes
from headrace.cli.output import plain, say
from headrace.cli.running import Text, report
from headrace.cli.session import Server, run_client
from headrace.cli.variables import substituted
from headrace.client import Client, ClientError
from headrace.client.attachments import attached
from headrace.client.wire import Plan, PlanStep
from headrace.core.errors import Diagnostic
from headrace.core.resultset import Cell
from headrace.core.wording import counted, plural
from headrace.sql import split
from headrace.sql.ast import quoted_text
from headrace.sql.diagnostics import shown
from headrace.sql.splitting import is_complete

CHANGES = 2
"""Exit code of a plan with changes, as Terraform's -detailed-exitcode has it."""
_SIGNS = {"create": "+", "update": "~", "replace": "~", "leave": " ", "drop": "-", "conflict": "!"}
_FILES = {
    "1-stores.sql": ("secret", "schema_registry", "store"),
    "2-functions.sql": ("descriptor_source", "function_source", "function"),
    "3-relations.sql": (),
}
"""The files of an exported folder, in their order, with the kinds in them; the last has all others."""


class _File(NamedTuple):
    """Place of a file's text in the text of all files."""

    name: str
    start: int
    content: str


@dataclass(frozen=True)
class Desired:
    """The texts of the desired state as one text, and the files that its statements name."""

    text: str
    sources: tuple[_File, ...]
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def described(self, error: Diagnostic) -> str:
        """Return an error with its file and line."""
        if error.span is None:
            return shown("", error)
        source = next(each for each in reversed(self.sources) if each.start <= error.span.start)
        start = error.span.start - source.start
        line = source.content.count("\n", 0, start) + 1
        span = replace(error.span, start=start, end=error.span.end - source.start, line=line)
        return f"{source.name}:{line}:{span.column}: {shown(source.content, replace(error, span=span))}"


def read(path: Path, variables: Mapping[str, str]) -> Desired:
    """Return the text of a file, or of all `.sql` files below a folder in the order of their names.

    Raises OSError, UnicodeDecodeError, ClientError for a file that cannot be read, and FileNotFoundError for a folder without any.
    """
    paths = sorted(path.rglob("*.sql")) if path.is_dir() else [path]
    if not paths:
        raise FileNotFoundError(f"no file *.sql in {path}")
    text, sources, files = "", [], {}
    for each in paths:
        content = substituted(each.read_text(encoding="utf-8"), variables)
        sources.append(_File(str(each), len(text), content))
        text += content + ("\n" if is_complete(content) else "\n;\n")
        for start, end in split(content):
            files.update(attached(content[start:end], each.parent))
    return Desired(text, tuple(sources), files)


def plan(server: Server, desired: Desired, *, prune: bool, detailed: bool) -> int:
    """Print what `apply` would do; return the exit code."""

    async def go(client: Client) -> int:
        steps = await _steps(client, desired, prune=prune)
        if steps is None:
            return exit_codes.STATEMENT_FAILED
        return CHANGES if detailed and steps else exit_codes.OK

    return run_client(server, go)


def apply(server: Server, desired: Desired, *, prune: bool, yes: bool) -> int:
    """Print the plan, ask, and run the statements of its steps in order, up to the first that fails; return the exit code."""

    async def go(client: Client) -> int:
        steps = await _steps(client, desired, prune=prune)
        if steps is None:
            return exit_codes.STATEMENT_FAILED
        if not steps:
            return exit_codes.OK
        if not yes and not _is_confirmed():
            say("headrace: nothing was changed")
            return exit_codes.STATEMENT_FAILED
        for number, step in enumerate(steps):
            statement = step.statement or ""
            files = {name: content for name, content in desired.files.items() if name in statement}
            try:
                await client.execute(statement, context=step.context, files=files)
            except ClientError as error:
                code = report(error, Text(statement))
                done = f"{number} of {counted(len(steps), 'step')} {plural('was', number, 'were')} applied"
                say(f"headrace: {done}; headrace plan shows the others")
                return code
            print(f"{_SIGNS[step.action]} {step.action} {step.kind} {plain(step.name)}: done")
        print(f"Applied {counted(len(steps), 'step')}.")
        return exit_codes.OK

    return run_client(server, go)


async def _steps(client: Client, desired: Desired, *, prune: bool) -> list[PlanStep] | None:
    """Print the plan, and return the steps to take; None if it cannot be applied."""
    result = await client.plan(desired.text, desired.files)
    for error in result.diagnostics:
        say(desired.described(error))
    for step in result.steps:
        print(_line(step, prune=prune))
        for note in step.notes:
            print(f"      {plain(note)}")
    if result.diagnostics:
        return None
    print(_summary(result, prune=prune))
    if any(step.action == "conflict" for step in result.steps):
        say("headrace: the plan has conflicts, and cannot be applied")
        return None
    return [step for step in result.steps if step.action != "leave" and (prune or step.action != "drop")]


def _line(step: PlanStep, *, prune: bool) -> str:
    kept = " (kept without --prune)" if step.action == "drop" and not prune else ""
    return f"{_SIGNS[step.action]} {step.action:8} {step.kind} {plain(step.name)}{kept}".rstrip()


def _summary(result: Plan, *, prune: bool) -> str:
    counts = {action: sum(step.action == action for step in result.steps) for action in _SIGNS}
    if not any(counts[action] for action in ("create", "update", "replace", "conflict", "drop")):
        return f"No changes: {counted(counts['leave'], 'object is as it', 'objects are as they')} should be."
    words = ", ".join(f"{counts[action]} to {action}" for action in ("create", "update", "replace"))
    dropped = f"{counts['drop']} to drop" if prune else f"{counts['drop']} to drop with --prune"
    return f"Plan: {words}, {dropped}; {counts['leave']} unchanged, {counts['conflict']} in conflict."


def _is_confirmed() -> bool:
    if not sys.stdin.isatty():
        say("headrace: pass --yes to apply without a question")
        return False
    print("Apply these steps? [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def export(server: Server, database: str, target: Path | None) -> int:
    """Write the statements that create a database: to standard output, a file, or the files of a folder. Return the exit code."""

    async def go(client: Client) -> int:
        answer = await client.execute(
            "SELECT kind, statement, note FROM deltastream.sys.definitions "  # noqa: S608 - a quoted text
            f"WHERE database_name = {quoted_text(database)} ORDER BY position"
        )
        if not answer.rows:
            say(f"headrace: the database {database} does not exist or is not authorized")
            return exit_codes.STATEMENT_FAILED
        for note in dict.fromkeys(row[2] for row in answer.rows if row[2]):
            say(f"headrace: {plain(note)}")
        try:
            _write(answer.rows, target)
        except OSError as error:
            say(f"headrace: cannot write {error.filename}: {error.strerror}")
            return exit_codes.STATEMENT_FAILED
        return exit_codes.OK

    return run_client(server, go)


def _write(rows: Sequence[Sequence[Cell]], target: Path | None) -> None:
    if target is None:
        print(_sql(rows), end="")
        return
    if target.suffix == ".sql":
        target.write_text(_sql(rows), encoding="utf-8")
        return
    target.mkdir(parents=True, exist_ok=True)
    placed = {kind: name for name, kinds in _FILES.items() for kind in kinds}
    *_, last = _FILES
    for name in _FILES:
        part = [row for row in rows if placed.get(row[0] or "", last) == name]
        if part:
            (target / name).write_text(_sql(part), encoding="utf-8")
        else:
            # An earlier export had statements for it.
            (target / name).unlink(missing_ok=True)


def _sql(rows: Sequence[Sequence[Cell]]) -> str:
    lines = []
    for _, statement, note in rows:
        if note:
            lines.append(f"-- {' '.join(note.split())}")
        if statement:
            lines.append(f"{statement};")
    return "\n".join(lines) + "\n"
