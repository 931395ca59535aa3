"""The interactive prompt."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from platformdirs import user_state_path
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer

from headrace.cli import backslash, exit_codes
from headrace.cli.keywords import KEYWORDS
from headrace.cli.output import Printer, TablePrinter, plain, say
from headrace.cli.running import Limits, Text, check_text, file_text, report, run_text
from headrace.client import AuthenticationFailedError, Client, ClientError, ConnectionFailedError
from headrace.core.context import SessionContext
from headrace.core.names import printed
from headrace.sql import is_complete

# A statement that may hold a password does not go into a file.
_SECRET = re.compile(r"password|secret|token|credential|private", re.IGNORECASE)


class Shell:
    """A conversation: prompt, statement, result, until the user leaves."""

    def __init__(self, client: Client, out: Printer, limits: Limits) -> None:
        self._client = client
        self._out = out
        self._limits = limits

    async def run(self) -> int:
        """Run the shell to its end; returns the exit code."""
        say(f"connected to {self._client.url}, server version {await self._client.version()}")
        say("\\? for help")
        await self._learn_context()
        prompt = _prompt_session()
        while True:
            try:
                text = (await prompt.prompt_async(prompt_text(self._client.context))).strip()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return exit_codes.OK
            word, argument = backslash.parts(text)
            if word in backslash.LEAVE_WORDS:
                return exit_codes.OK
            if word == "\\conninfo":
                say(self._connection())
            elif word == "\\x":
                self._toggle_records()
            elif word == "\\i" and argument:
                await self._with_file(argument, self._run_text)
            elif word == "\\validate" and argument:
                await self._with_file(argument, self._check_text)
            elif text:
                await self._run_text(Text(text))

    async def _run_text(self, text: Text) -> None:
        await _until_interrupted(run_text(self._client, text, self._out, self._limits))

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

    def _connection(self) -> str:
        context = self._client.context
        role, pool = context.role or "none", context.compute_pool or "the default one"
        return f"connected to {self._client.url}, role {role}, compute pool {pool}"

    def _toggle_records(self) -> None:
        if not isinstance(self._out, TablePrinter):
            say("headrace: \\x is for --output table")
            return
        self._out.is_expanded = not self._out.is_expanded
        say(f"each row as a record: {'on' if self._out.is_expanded else 'off'}")

    async def _learn_context(self) -> None:
        """Fetch the current names with an empty statement; a refused token or an absent server ends the shell here."""
        try:
            await self._client.execute("-- hello")
        except (AuthenticationFailedError, ConnectionFailedError):
            raise
        except ClientError as error:
            report(error)


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


def _prompt_session() -> PromptSession[str]:
    keys = KeyBindings()

    @Condition
    def is_ready() -> bool:
        text = session.default_buffer.text.strip()
        return not text or backslash.is_command(text) or is_complete(text)

    @keys.add("enter", filter=is_ready)
    def _accept(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    session: PromptSession[str] = PromptSession(
        multiline=True,
        prompt_continuation="... ",
        history=PrivateHistory(user_state_path("headrace") / "sql_history"),
        completer=WordCompleter(KEYWORDS, ignore_case=True),
        complete_while_typing=False,
        lexer=PygmentsLexer(SqlLexer),
        key_bindings=keys,
        enable_history_search=True,
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
