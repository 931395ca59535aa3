"""Execution of a text's statements one by one, with their output and their errors."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace.cli import backslash, exit_codes
from headrace.cli.output import Key, Printer, TablePrinter, is_summary, say
from headrace.cli.screen import Screen
from headrace.cli.variables import substituted
from headrace.client import (
    Answer,
    AuthenticationFailedError,
    Client,
    ClientError,
    LiveRow,
    RequestRefusedError,
    ServerUnreachableError,
    SqlError,
)
from headrace.client.attachments import attached
from headrace.client.wire import StreamStart
from headrace.core.errors import Diagnostic, Span
from headrace.core.wording import counted
from headrace.sql import split
from headrace.sql.diagnostics import shown
from headrace.sql.splitting import PIECE

_NOT_AUTHORIZED = "42501"
BATCH_ROWS_MAX = 1000
BATCH_WAIT_S = 0.02
"""Rows that come faster than this are written together."""
WHERE_TOKENS_ARE = "Pass it with --token or HEADRACE_TOKEN, or name the data directory of a server on this machine: --data-dir."

PATIENCE_S = 3.0
"""After this a user at a terminal is told that a statement is still being worked on."""

# Text that the caret line underlines: the server reports only its start.
_MARKED = re.compile(r'"(?:[^"]|"")*"|`[^`]*`|\'[^\'\n]*\'|\w+(?:\.\w+)*|\S')


_COPIES = re.compile(r"COPY\b", re.IGNORECASE)


@dataclass(frozen=True)
class Limits:
    """Limits of each statement: rows written, and seconds."""

    rows: int | None = None
    seconds: float | None = None


@dataclass
class Display:
    """Display of results: the printer of rows, the limits, and the messages beside the rows.

    At a prompt, `screen` is the destination of the rows, and rows are counted. Errors are one JSON object each with `json_errors`.
    With `live`, a terminal shows the current rows of a live result instead of each change.
    """

    out: Printer
    limits: Limits = Limits()
    screen: Screen | None = None
    timing: bool = False
    live: bool = False
    json_errors: bool = False
    variables: dict[str, str] = field(default_factory=dict)

    def of_stream(self) -> Printer:
        """Return the printer of a live result."""
        if self.live and isinstance(self.out, TablePrinter) and self.out.is_on_terminal:
            from headrace.cli.live_table import LiveTable

            return LiveTable()
        return self.out


@dataclass(frozen=True)
class Text:
    """Statements and where they are from; `source` is a file's name or None for the command line."""

    content: str
    source: str | None = None


def file_text(name: str) -> Text:
    """Return the statements of a file, `-` for standard input; raises OSError, UnicodeDecodeError."""
    if name == "-":
        return Text(sys.stdin.read(), "stdin")
    return Text(Path(name).expanduser().read_text(encoding="utf-8"), name)


async def check_text(client: Client, text: Text) -> int:
    """Print all errors of a text; return the exit code."""
    problems = await client.check(text.content)
    for problem in problems:
        source = (
            f"{text.source}:{problem.span.line}:{problem.span.column}: "
            if text.source and problem.span
            else ""
        )
        say(source + shown(text.content, problem))
    return (
        exit_codes.STATEMENT_FAILED if any(item.severity == "error" for item in problems) else exit_codes.OK
    )


async def run_text(client: Client, text: Text, display: Display, *, go_on: bool = False) -> int:
    """Run the statements of one text one by one; returns the exit code of the first that fails, or 0. With `go_on`, run those after it too.

    If the text is a backslash command, run the SQL of the command.
    """
    if text.source is None and backslash.is_command(text.content.strip()):
        sql = backslash.sql_of(text.content)
        if sql is None:
            is_help = backslash.parts(text.content)[0] in backslash.HELP_WORDS
            say(backslash.help_text() if is_help else backslash.refusal(text.content.strip()))
            return exit_codes.OK if is_help else exit_codes.USAGE
        text = Text(sql)
    text = replace(text, content=substituted(text.content, display.variables))
    result = exit_codes.OK
    for start, end in split(text.content):
        try:
            await run_statement(client, text.content[start:end], display)
        except ClientError as error:
            code = report(error, text, start, as_json=display.json_errors)
            if not go_on or code == exit_codes.NO_CONNECTION:
                return code
            result = result or code
    return result


def destroys(statement: str) -> bool:
    """True for a statement whose effect cannot be undone: DROP, TERMINATE, and whatever ends with CASCADE."""
    words = [match.group().upper() for match in PIECE.finditer(statement) if match.lastgroup == "word"]
    return bool(words) and (words[0] in ("DROP", "TERMINATE") or words[-1] == "CASCADE")


async def run_statement(client: Client, statement: str, display: Display) -> None:
    """Run one statement and write its result; raises ClientError."""
    began, limits, out = time.perf_counter(), display.limits, display.out
    with _patience() as patience:
        try:
            async with asyncio.timeout(limits.seconds):
                answer = await client.execute(statement, files=attached(statement))
        except TimeoutError:
            raise StatementTimeoutError(
                f"the statement did not end within {limits.seconds:g} seconds"
            ) from None
        if answer.message:
            (_tell if answer.is_stream else say)(answer.message)
        await _keep_copied(client, statement, answer)
        if answer.is_stream:
            await _write_stream(answer, display.of_stream(), limits, patience=patience)
        else:
            rows = answer.rows[: limits.rows]
            with display.screen.paged() if display.screen is not None else nullcontext():
                out.start(answer.columns)
                out.write(rows)
                out.finish()
            if display.screen is not None and answer.columns and not is_summary(answer.columns):
                say(f"({counted(len(rows), 'row')})")
    if display.timing:
        say(f"Time: {(time.perf_counter() - began) * 1000:.1f} ms")


async def _keep_copied(client: Client, statement: str, answer: Answer) -> None:
    """Write the file of a COPY; raises RequestRefusedError if it exists, cannot be written, or has another digest."""
    if not _COPIES.match(statement):
        return
    from headrace.sql import parse
    from headrace.sql.statements.copying import CopySource

    (copied,) = parse(statement)
    if not isinstance(copied, CopySource):
        return
    facts = dict(zip((column.name for column in answer.columns), answer.rows[0], strict=True))
    content = await client.download(facts["Url"] or "")
    if hashlib.sha256(content).hexdigest() != facts["Sha256"]:
        raise RequestRefusedError("the file changed while it was copied: try again")
    path = Path(copied.path).expanduser()
    try:
        with path.open("xb") as file:
            file.write(content)
    except OSError as error:
        raise RequestRefusedError(f"cannot write the file {path}: {error.strerror}") from None


@contextmanager
def _patience() -> Iterator[asyncio.TimerHandle]:
    """Prints that a long wait is normal, unless the timer is cancelled first."""
    timer = asyncio.get_running_loop().call_later(
        PATIENCE_S,
        _tell,
        "still working (a compute pool that starts takes up to a minute); Ctrl-C cancels it",
    )
    try:
        yield timer
    finally:
        timer.cancel()


def _tell(text: str) -> None:
    """Print a message for an interactive user; scripts and files get none."""
    if sys.stdout.isatty() and sys.stderr.isatty():
        say(text)


async def _write_stream(
    answer: Answer, out: Printer, limits: Limits, *, patience: asyncio.TimerHandle
) -> None:
    left = limits.rows
    key: Key = None

    def on_started(start: StreamStart) -> None:
        nonlocal key
        key = start.changelog_key
        patience.cancel()
        _tell("the query runs: rows are shown as they come, until Ctrl-C")
        out.start(answer.columns, key=key)

    try:
        async with (
            asyncio.timeout(limits.seconds),
            aclosing(answer.stream(on_started=on_started)) as rows,
            aclosing(_batches(rows)) as batches,
        ):
            async for batch in batches:
                out.write([row.cells if key is None else (row.op, *row.cells) for row in batch[:left]])
                if left is not None:
                    left -= len(batch)
                    if left <= 0:
                        return
    except TimeoutError:
        # That was the wish: so many seconds of a result that has no end.
        return
    finally:
        out.finish()


async def _batches(rows: AsyncIterator[LiveRow]) -> AsyncGenerator[list[LiveRow]]:
    """Yield rows together with those that come right after them."""
    queue: asyncio.Queue[LiveRow | Exception | None] = asyncio.Queue(BATCH_ROWS_MAX)

    async def read() -> None:
        try:
            async for row in rows:
                await queue.put(row)
        except ClientError as error:
            await queue.put(error)
        else:
            await queue.put(None)

    reading = asyncio.create_task(read())
    try:
        while True:
            items = [await queue.get()]
            await asyncio.sleep(BATCH_WAIT_S)
            while not queue.empty():
                items.append(queue.get_nowait())
            batch = [item for item in items if isinstance(item, LiveRow)]
            if batch:
                yield batch
            last = items[-1]
            if isinstance(last, Exception):
                raise last
            if last is None:
                return
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


class StatementTimeoutError(ClientError):
    """A bounded statement that took longer than --timeout."""


def report(error: ClientError, text: Text | None = None, start: int = 0, *, as_json: bool = False) -> int:
    """Print an error and its position to standard error; `start` is the statement's offset in `text`. Returns the exit code."""
    code = _code_of(error)
    if as_json:
        say(_json_of(error, text, start))
        return code
    if isinstance(error, SqlError):
        say(describe(error, text, start))
        return code
    say(f"headrace: {error}")
    if isinstance(error, AuthenticationFailedError):
        say(f"hint: {WHERE_TOKENS_ARE}")
    if isinstance(error, ServerUnreachableError):
        say("hint: Start a server with headrace up, or name another with --url.")
    return code


def _code_of(error: ClientError) -> int:
    if isinstance(error, SqlError):
        denied = error.sqlstate == _NOT_AUTHORIZED
        return exit_codes.NOT_AUTHORIZED if denied else exit_codes.STATEMENT_FAILED
    if isinstance(error, AuthenticationFailedError):
        return exit_codes.NOT_AUTHORIZED
    if isinstance(error, RequestRefusedError | StatementTimeoutError):
        return exit_codes.STATEMENT_FAILED
    return exit_codes.NO_CONNECTION


def _json_of(error: ClientError, text: Text | None, start: int) -> str:
    """Return an error as a JSON object of one line; unknown parts are left out."""
    parts: dict[str, object] = {"message": str(error)}
    if isinstance(error, SqlError):
        _, place = _placed(error, text, start)
        parts = {
            "sqlState": error.sqlstate,
            "message": error.message,
            "hint": error.hint,
            "source": text.source if text is not None else None,
            "line": place.line if place is not None else None,
            "column": place.column if place is not None else None,
        }
    return json.dumps({"error": {name: part for name, part in parts.items() if part is not None}})


def describe(error: SqlError, text: Text | None, start: int) -> str:
    """Return the error as the command line shows it: SQLSTATE and message, the line with a caret, the hint."""
    content, place = _placed(error, text, start)
    source = (
        f"{text.source}:{place.line}:{place.column}: " if text is not None and text.source and place else ""
    )
    return source + shown(content, Diagnostic(error.sqlstate, error.message, error.hint, place))


def _placed(error: SqlError, text: Text | None, start: int) -> tuple[str, Span | None]:
    """Return the text of an error, and its place in the whole text."""
    content, place = "", None
    if text is not None and error.line is not None and error.column is not None:
        content = text.content
        statement_lines = content[start:].split("\n")
        offset = start + sum(len(line) + 1 for line in statement_lines[: error.line - 1]) + error.column - 1
        line_start = content.rfind("\n", 0, offset) + 1
        marked = _MARKED.match(content, offset)
        end = marked.end() if marked else offset + 1
        place = Span(offset, end, content.count("\n", 0, offset) + 1, offset - line_start + 1)
    return content, place
