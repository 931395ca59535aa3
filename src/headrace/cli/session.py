"""Running statements against a server, from texts or at a prompt."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import shutil
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from platformdirs import user_data_path

from headrace.cli import exit_codes
from headrace.cli.output import say
from headrace.cli.running import Display, Text, check_text, report, run_text
from headrace.cli.screen import Screen
from headrace.client import Client, ClientError, DeviceCode, SqlError
from headrace.core.context import SessionContext
from headrace.core.names import printed
from headrace.core.sqlstate import SqlState

_EXISTS = SqlState.DUPLICATE_API_TOKEN.value


@dataclass(frozen=True)
class Server:
    """Address of a server, the credentials for it, and the session's first names."""

    url: str
    token: str = field(repr=False)
    context: SessionContext | None = None


def local_token(url: str, data_dir: Path | None) -> str | None:
    """Return the token that a server on this machine created at its first start. The token must not be sent to another machine."""
    host = urlsplit(url).hostname or ""
    try:
        is_here = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        is_here = False
    file = (data_dir or user_data_path("headrace")) / "token"
    if not is_here or not file.is_file() or not os.access(file, os.R_OK):
        return None
    return file.read_text(encoding="utf-8").strip()


def run(server: Server, sources: Sequence[Text], display: Display, *, go_on: bool = False) -> int:
    """Run all statements, stop at the first that fails unless they `go_on`; returns the exit code of the first that fails."""

    async def go() -> int:
        async with Client(server.url, server.token, context=server.context) as client:
            result = exit_codes.OK
            for text in sources:
                code = await run_text(client, text, display, go_on=go_on)
                result = result or code
                if code != exit_codes.OK and not go_on:
                    break
        return result

    return _run(go(), as_json=display.json_errors)


def run_client(server: Server, work: Callable[[Client], Coroutine[Any, Any, int]]) -> int:
    """Run something with a client of the server; return its exit code, or that of the error that ended it."""

    async def go() -> int:
        async with Client(server.url, server.token, context=server.context) as client:
            return await work(client)

    return _run(go())


def verify(server: Server) -> int:
    """Check that the server accepts the token; return the exit code."""

    async def go() -> int:
        async with Client(server.url, server.token) as client:
            await client.execute("-- login")
        return exit_codes.OK

    return _run(go())


def token_by_sign_in(
    url: str, sign_in: Callable[[Client], Awaitable[None]], role: str | None
) -> tuple[int, str | None]:
    """Sign in, create an API token for this machine or renew it, and sign out; return the exit code and the token."""
    # The parser's libraries would slow down the start of every statement.
    from headrace.sql.ast import quoted_text

    name, tokens = printed(f"login_{platform.node() or 'unknown'}"), []

    async def go() -> int:
        async with Client(url, None) as client:
            await sign_in(client)
            try:
                active = role or (await client.execute("-- login")).context.role or ""
                create = f"CREATE API_TOKEN {name} WITH ('token.role_name' = {quoted_text(active)})"
                try:
                    answer = await client.execute(create)
                except SqlError as error:
                    if error.sqlstate != _EXISTS:
                        raise
                    # A token of an earlier login may have another role.
                    answer = await client.execute(f"DROP API_TOKEN {name}; {create}")
                facts = dict(zip((column.name for column in answer.columns), answer.rows[0], strict=True))
                tokens.append(facts["Token"])
            finally:
                await client.sign_out()
        return exit_codes.OK

    code = _run(go())
    return code, tokens[0] if tokens else None


def show_device_code(code: DeviceCode) -> None:
    """Ask the user to enter a code in a browser."""
    say(f"headrace: open {code.address} in a browser of any machine, and enter the code {code.code}")
    if code.direct is not None:
        say(f"headrace: or open {code.direct}, and compare the code there")


def check(server: Server, sources: Sequence[Text]) -> int:
    """Print all errors of the texts without running them; return the exit code."""

    async def go() -> int:
        code = exit_codes.OK
        async with Client(server.url, server.token, context=server.context) as client:
            for text in sources:
                code = max(code, await check_text(client, text))
        return code

    return _run(go())


def back_up(server: Server, folder: Path, role: str) -> int:
    """Let the server write a backup, and move it from its data directory to `folder`; return the exit code."""
    if folder.exists():
        say(f"headrace: {folder} exists already\nhint: Name a folder that does not exist.")
        return exit_codes.STATEMENT_FAILED

    async def go() -> int:
        async with Client(server.url, server.token, context=server.context) as client:
            answer = await client.execute(f"USE ROLE {printed(role)}; CREATE BACKUP;")
        facts = dict(zip((column.name for column in answer.columns), answer.rows[0], strict=True))
        written = Path(json.loads(facts["Path"] or "")[0])
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(written, folder)
        except OSError as error:
            say(
                f"headrace: cannot move the backup to {folder}: {error.strerror or error}\n"
                f"hint: It is complete in {written} on the machine of the server."
            )
            return exit_codes.STATEMENT_FAILED
        say(f"headrace: {folder}: {facts['Summary']}")
        return exit_codes.OK

    return _run(go())


def _run(work: Coroutine[Any, Any, int], *, as_json: bool = False) -> int:
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED
    except ClientError as error:
        return report(error, as_json=as_json)


def interact(server: Server, display: Display, screen: Screen, *, yes: bool, vi: bool, rc: bool) -> int:
    """Run the prompt; returns the exit code."""
    from headrace.cli.shell import Shell

    async def go() -> int:
        async with Client(server.url, server.token, context=server.context) as client:
            return await Shell(client, display, screen, yes=yes, vi=vi, rc=rc).run()

    return _run(go())


def serve_mcp(server: Server, names: Mapping[str, str | None]) -> int:
    """Serve MCP on standard input and output; returns the exit code."""
    from headrace.cli.mcp_stdio import forward

    async def go() -> int:
        async with Client(server.url, server.token, context=server.context) as client:
            # A wrong address or token is reported as by the other commands.
            await client.version()
        await forward(server.url, server.token, names)
        return exit_codes.OK

    return _run(go())
