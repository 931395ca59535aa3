"""The interactive prompt."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from platformdirs import user_config_path, user_state_path
from prompt_toolkit import PromptSession
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer

from headrace.cli import backslash, exit_codes
from headrace.cli.choices import Output
from headrace.cli.completing import ServerCompleter
from headrace.cli.describing import describe_relation, is_name
from headrace.cli.formats import Style, printer
from headrace.cli.output import Printer, TablePrinter, plain, say
from headrace.cli.running import Display, Text, check_text, destroys, file_text, report, run_text
from headrace.cli.screen import Screen
from headrace.cli.statement_help import help_for, hint_for
from headrace.client import AuthenticationFailedError, Client, ClientError, ConnectionFailedError
from headrace.core.context import SessionContext
from headrace.core.names import printed
from headrace.sql import is_complete, split

# A statement that may hold a password does not go into a file.
_SECRET = re.compile(r"password|secret|token|credential|private", re.IGNORECASE)
_COPY = re.compile(r"\((?P<query>.*)\)\s+TO\s+(?P<file>\S+)\Z", re.IGNORECASE | re.DOTALL)
_COPY_FORMATS = {
    ".csv": Output.CSV,
    ".tsv": Output.TSV,
    ".json": Output.JSON,
    ".ndjson": Output.NDJSON,
    ".md": Output.MARKDOWN,
}
_ON_STATEMENT = ("\\g", "\\watch", "\\e")
"""Commands that run the statement before them, or the last one."""
_WATCH_S = 2.0
_EDITOR = "vi"


class Shell:
    """A conversation: prompt, statement, result, until the user leaves."""

    def __init__(
        self,
        client: Client,
        display: Display,
        screen: Screen,
        *,
        yes: bool = False,
        vi: bool = False,
        rc: bool = True,
    ) -> None:
        self._client = client
        self._display = display
        self._screen = screen
        self._yes = yes
        self._has_rc = rc
        self._last = ""
        self._prompt = prompt_session(client, vi=vi)
        self._commands: dict[str, Callable[[str], Awaitable[None]]] = {
            "\\conninfo": self._conninfo,
            "\\copy": self._copy,
            "\\d": self._describe,
            "\\h": self._help,
            "\\i": self._include,
            "\\live": self._toggle_live,
            "\\o": self._redirect,
            "\\pager": self._toggle_pager,
            "\\set": self._set,
            "\\timing": self._toggle_timing,
            "\\unset": self._unset,
            "\\validate": self._validate,
            "\\x": self._expand,
        }

    async def run(self) -> int:
        """Run the shell to its end; returns the exit code."""
        say(f"connected to {self._client.url}, server version {await self._client.version()}")
        say("\\? for help")
        await self._learn_context()
        await self._run_rc_file()
        pending = ""
        while True:
            try:
                message = prompt_text(self._client.context)
                text = (await self._prompt.prompt_async(message, default=pending)).strip()
            except KeyboardInterrupt:
                pending = ""
                continue
            except EOFError:
                return exit_codes.OK
            if backslash.parts(text)[0] in backslash.LEAVE_WORDS:
                return exit_codes.OK
            pending = await self._take(text)

    async def _take(self, text: str) -> str:
        """Run what was typed; returns the unfinished statement before a command, which is kept."""
        statement, command = split_command(text)
        if not command:
            if statement:
                await self._run_statements(statement)
            return ""
        word, argument = backslash.parts(command)
        if word in _ON_STATEMENT:
            await self._run_with(word, argument, statement)
            return ""
        if statement and is_complete(statement):
            await self._run_statements(statement)
            statement = ""
        is_relation = word != backslash.DESCRIBE or is_name(argument)
        if word in self._commands and is_relation and (argument or word not in ("\\h", "\\i", "\\validate")):
            await self._commands[word](argument)
        else:
            await self._run_text(Text(command))
        return f"{statement}\n" if statement else ""

    async def _run_with(self, word: str, argument: str, statement: str) -> None:
        """Run the statement, or the last one: into a file, again and again, or after it was edited."""
        text = statement or self._last
        if word == "\\e":
            text = await asyncio.to_thread(edited, text)
            say(text)
        if not text:
            say("headrace: there is no statement yet")
        elif word == "\\watch":
            await self._watch(text, argument)
        else:
            with self._target(argument if word == "\\g" else ""):
                await self._run_statements(text)

    def _target(self, file: str) -> AbstractContextManager[None]:
        return self._screen.redirected(Path(file)) if file else nullcontext()

    async def _watch(self, text: str, argument: str) -> None:
        try:
            seconds = float(argument or _WATCH_S)
        except ValueError:
            say(f"headrace: expected a number of seconds, found {argument}")
            return
        pager, self._screen.pager = self._screen.pager, False

        async def again() -> None:
            while await run_text(self._client, Text(text), self._display) == exit_codes.OK:
                await asyncio.sleep(seconds)

        try:
            await _until_interrupted(again())
        finally:
            self._screen.pager = pager

    async def _run_statements(self, text: str) -> None:
        self._last = text
        dangerous = next(
            (part for part in (text[start:end] for start, end in split(text)) if destroys(part)), None
        )
        if dangerous is not None and not self._yes and not await self._is_confirmed(dangerous):
            say("not run")
            return
        await self._run_text(Text(text))

    async def _is_confirmed(self, statement: str) -> bool:
        question: PromptSession[str] = PromptSession()
        try:
            answer = await question.prompt_async(plain(f"{statement.splitlines()[0]}\nRun it? [y/N] "))
        except (KeyboardInterrupt, EOFError):
            return False
        return answer.strip().lower() in ("y", "yes")

    async def _run_text(self, text: Text) -> None:
        try:
            await _until_interrupted(run_text(self._client, text, self._display))
        except OSError as error:
            say(f"headrace: {error}")

    async def _run_rc_file(self) -> None:
        file = user_config_path("headrace") / "rc.sql"
        if not self._has_rc or not file.is_file():
            return
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.strip():
                await self._take(line.strip())

    # -- commands

    async def _conninfo(self, _argument: str) -> None:
        context = self._client.context
        role, pool = context.role or "none", context.compute_pool or "the default one"
        try:
            version = await self._client.version()
        except ClientError as error:
            report(error)
            return
        say(f"connected to {self._client.url}, server version {version}, role {role}, compute pool {pool}")

    async def _describe(self, name: str) -> None:
        try:
            await describe_relation(self._client, name, self._display.out, self._screen)
        except ClientError as error:
            report(error)

    async def _help(self, words: str) -> None:
        text = help_for(words)
        if text is None:
            say(f"headrace: no statement {words}\nhint: {hint_for(words)}")
            return
        with self._screen.paged():
            self._screen.write(plain(text) + "\n")

    async def _include(self, name: str) -> None:
        await self._with_file(name, lambda text: self._run_text(text))

    async def _validate(self, name: str) -> None:
        await self._with_file(name, self._check_text)

    async def _check_text(self, text: Text) -> None:
        try:
            if await check_text(self._client, text) == exit_codes.OK:
                say("nothing is wrong")
        except ClientError as error:
            report(error)

    async def _with_file(self, name: str, work: Callable[[Text], Awaitable[None]]) -> None:
        try:
            text = file_text(name)
        except (OSError, UnicodeDecodeError) as error:
            say(f"headrace: cannot read the statements: {error}")
            return
        await work(text)

    async def _redirect(self, name: str) -> None:
        try:
            self._screen.redirect(Path(name) if name else None)
        except OSError as error:
            say(f"headrace: cannot write the file: {error}")

    async def _copy(self, argument: str) -> None:
        match = _COPY.match(argument)
        output = _COPY_FORMATS.get(Path(match["file"]).suffix) if match is not None else None
        if match is None or output is None:
            say(
                f"headrace: expected \\copy (QUERY) TO FILE, a file of {', '.join(_COPY_FORMATS)}, found {argument}"
            )
            return
        before, self._display.out = self._display.out, printer(output, self._screen, Style())
        try:
            with self._screen.redirected(Path(match["file"])):
                await self._run_text(Text(match["query"]))
        except OSError as error:
            say(f"headrace: cannot write the file: {error}")
        finally:
            self._display.out = before

    async def _toggle_timing(self, argument: str) -> None:
        self._display.timing = _switched(argument, self._display.timing)
        say(f"timing: {'on' if self._display.timing else 'off'}")

    async def _toggle_live(self, argument: str) -> None:
        self._display.live = _switched(argument, self._display.live)
        say(f"current rows of live results: {'on' if self._display.live else 'off'}")

    async def _toggle_pager(self, argument: str) -> None:
        self._screen.pager = _switched(argument, self._screen.pager)
        say(f"pager: {'on' if self._screen.pager else 'off'}")

    async def _set(self, argument: str) -> None:
        name, _, value = argument.partition(" ")
        if name:
            self._display.variables[name] = value.strip().strip("'")
            return
        for known, text in sorted(self._display.variables.items()):
            say(f"{known} = '{text}'")

    async def _unset(self, name: str) -> None:
        self._display.variables.pop(name, None)

    async def _expand(self, argument: str) -> None:
        out: Printer = self._display.out
        if not isinstance(out, TablePrinter):
            say("headrace: \\x is for --output table and expanded")
            return
        if argument not in ("", "on", "off", "auto"):
            say(f"headrace: expected \\x on, off or auto, found {argument}")
            return
        out.expanded = argument or ("auto" if out.expanded == "on" else "on")
        say(f"each row as a record: {out.expanded}")

    async def _learn_context(self) -> None:
        """Fetch the current names with an empty statement; a refused token or an absent server ends the shell here."""
        try:
            await self._client.execute("-- hello")
        except (AuthenticationFailedError, ConnectionFailedError):
            raise
        except ClientError as error:
            report(error)


def _switched(argument: str, current: bool) -> bool:
    return {"on": True, "off": False}.get(argument, not current)


def split_command(text: str) -> tuple[str, str]:
    """Return the statement and the backslash command after it, on its last line or behind its semicolon."""
    if backslash.is_command(text):
        return "", text
    head, newline, last = text.rpartition("\n")
    if newline and last.lstrip().startswith("\\"):
        return head.strip(), last.strip()
    match = re.search(r"\s(\\(?:g|watch|e)\b[^\n;']*)\Z", text)
    return (text[: match.start()].strip(), match[1].strip()) if match else (text, "")


def edited(text: str) -> str:
    """Let the user edit a text in $EDITOR, and return it."""
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or _EDITOR)
    with tempfile.NamedTemporaryFile("w+", suffix=".sql", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        try:
            subprocess.run([*command, file.name], check=False)
        except OSError as error:
            say(f"headrace: cannot start the editor {command[0]}: {error.strerror}\nhint: Set EDITOR.")
        return Path(file.name).read_text(encoding="utf-8").strip()


def prompt_text(context: SessionContext) -> str:
    """Return `database.schema/store# `."""
    database = printed(context.database) if context.database else "<no-db>"
    schema = f".{printed(context.schema)}" if context.database and context.schema else ""
    store = printed(context.store) if context.store else "<no-store>"
    return plain(f"{database}{schema}/{store}# ")


class PrivateHistory(FileHistory):
    """Lines of former sessions, in a file for the user alone and without statements that may hold secrets."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
        super().__init__(str(file))

    def store_string(self, string: str) -> None:
        """Keep a line."""
        if not _SECRET.search(string):
            super().store_string(string)


def prompt_session(client: Client, *, vi: bool) -> PromptSession[str]:
    """Return the prompt: several lines up to a semicolon or a command, with history and completion."""
    keys = KeyBindings()

    @Condition
    def is_ready() -> bool:
        text = session.default_buffer.text.strip()
        return not text or bool(split_command(text)[1]) or is_complete(text)

    @keys.add("enter", filter=is_ready)
    def _accept(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    session: PromptSession[str] = PromptSession(
        multiline=True,
        prompt_continuation="... ",
        history=PrivateHistory(user_state_path("headrace") / "sql_history"),
        completer=ServerCompleter(client),
        complete_while_typing=False,
        lexer=PygmentsLexer(SqlLexer),
        key_bindings=keys,
        enable_history_search=True,
        editing_mode=EditingMode.VI if vi else EditingMode.EMACS,
    )
    return session


async def _until_interrupted(work: Coroutine[Any, Any, object]) -> None:
    """Run `work`; Ctrl-C ends it and nothing else."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, task.cancel)
    try:
        await asyncio.wait({task})
    finally:
        loop.remove_signal_handler(signal.SIGINT)
    if task.cancelled():
        say("\ninterrupted")
    else:
        task.result()
