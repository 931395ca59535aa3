"""The commands and their options."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from headrace.cli import exit_codes, testing

if TYPE_CHECKING:
    from headrace.cli.session import Server

_ORDER = "headrace.order"
DEFAULT_URL = "http://127.0.0.1:8080"

app = typer.Typer(
    help="Headrace, an open streaming SQL database: SQL over the stores you already own.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Output(StrEnum):
    """Format of rows."""

    TABLE = "table"
    NDJSON = "ndjson"


DataDirectory = Annotated[
    Path | None, typer.Option(help="Data directory of the server.", envvar="HEADRACE_DATA_DIR")
]

Host = Annotated[str | None, typer.Option(help="Address to bind.", envvar="HEADRACE_HOST")]
Port = Annotated[
    int | None,
    typer.Option(help="Port to bind; 0 selects a free one.", envvar="HEADRACE_PORT", min=0, max=65535),
]
Url = Annotated[str, typer.Option(help="The server.", envvar="HEADRACE_URL")]
Token = Annotated[
    str | None,
    typer.Option(
        help="Your token; default: the token that a server on this machine created.",
        envvar="HEADRACE_TOKEN",
    ),
]


@app.command()
def up(
    *,
    data_dir: DataDirectory = None,
    host: Host = None,
    port: Port = None,
    token: Annotated[
        str | None,
        typer.Option(
            help="Token of the administrator; without it, the first start creates one.",
            envvar="HEADRACE_TOKEN",
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(help="TLS certificate, PEM.", envvar="HEADRACE_TLS_CERT")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(help="Private key of the certificate, PEM.", envvar="HEADRACE_TLS_KEY")
    ] = None,
    with_kafka: Annotated[
        bool, typer.Option("--with-kafka", help="Start a Kafka broker too; a port may follow.")
    ] = False,
    kafka_port: Annotated[int, typer.Option(hidden=True, min=0, max=65535)] = 0,
) -> None:
    """Start the server; it runs until Ctrl-C or SIGTERM.

    Prints one line on standard output when it answers: headrace ready URL. The data directory holds everything: started
    there again, the server resumes its queries.
    """
    given = {"DATA_DIR": data_dir, "HOST": host, "PORT": port, "TOKEN": token}
    given |= {"TLS_CERT": tls_cert, "TLS_KEY": tls_key}
    settings = {f"HEADRACE_{name}": str(value) for name, value in given.items() if value is not None}
    # -I is not used: the environment of the user's Python is the one that Headrace is installed in.
    command = [sys.executable, "-m", "headrace.server"]
    if with_kafka:
        command += ["--with-kafka", str(kafka_port)]
    # The server replaces this process, so that the caller keeps the process id, the signals and the streams.
    os.execve(sys.executable, command, {**os.environ, **settings})  # noqa: S606


class _InOrder(TyperCommand):
    """Command that records the order of its options; click only keeps the values of each option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, and keep the options' names in `meta`."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta[_ORDER] = [parameter.name for parameter in order]
        return super().parse_args(ctx, args)


@app.command(cls=_InOrder)
def sql(
    ctx: typer.Context,
    *,
    command: Annotated[
        list[str] | None,
        typer.Option(
            "--command",
            "-c",
            metavar="SQL",
            help="Statements to run; repeatable, as is -f: all run in the order of the command line.",
        ),
    ] = None,
    file: Annotated[
        list[str] | None,
        typer.Option("--file", "-f", metavar="FILE", help="File of statements; - is stdin."),
    ] = None,
    output: Annotated[
        Output | None, typer.Option("--output", "-o", help="Default: table on a terminal, ndjson elsewhere.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Report all errors of the statements, and run none.")
    ] = False,
    max_rows: Annotated[int | None, typer.Option(help="End each result after this many rows.", min=1)] = None,
    timeout: Annotated[
        float | None,
        typer.Option(help=("End each live result after this many seconds; other results fail then."), min=0),
    ] = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    data_dir: DataDirectory = None,
) -> None:
    """Run SQL: an interactive prompt, or the statements of -c, -f and standard input.

    Rows of a live result are written as they come; Ctrl-C ends it. With ndjson, standard output has rows and nothing else. Exit
    codes: 0 ok, 1 a statement failed, 2 usage, 3 no connection, 4 not authenticated, 130 interrupted.
    """
    from headrace.cli import running, session
    from headrace.cli.output import say

    chosen = output or (Output.TABLE if sys.stdout.isatty() else Output.NDJSON)
    limits = running.Limits(max_rows, timeout)
    server = _server(url, token, data_dir)
    if not command and not file and not check and sys.stdin.isatty():
        raise typer.Exit(session.interact(server, chosen.value, limits))
    given = {"command": map(running.Text, command or []), "file": map(running.file_text, file or ["-"])}
    order = [name for name in ctx.meta[_ORDER] if name in given] or ["file"]
    try:
        texts = [next(given[name]) for name in order]
    except (OSError, UnicodeDecodeError) as error:
        say(f"headrace: cannot read the statements: {error}")
        raise typer.Exit(exit_codes.USAGE) from None
    if check:
        raise typer.Exit(session.check(server, texts))
    raise typer.Exit(session.run(server, texts, chosen.value, limits))


@app.command()
def mcp(
    *,
    role: Annotated[str | None, typer.Option(help="Role of all tools; default: that of the token.")] = None,
    database: Annotated[str | None, typer.Option(help="Database of names without one.")] = None,
    schema: Annotated[str | None, typer.Option(help="Schema of names without one.")] = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    data_dir: DataDirectory = None,
) -> None:
    """Serve MCP on standard input and output, for programs that follow a language model.

    The tools are those of the server at --url for your token: this command has no privileges of its own.
    """
    from headrace.cli import session

    names = {"role": role, "database": database, "schema": schema}
    raise typer.Exit(session.serve_mcp(_server(url, token, data_dir), names))


def _server(url: str, token: str | None, data_dir: Path | None) -> Server:
    """Return the server with the token, or exit if there is none."""
    from headrace.cli import running, session
    from headrace.cli.output import say

    credential = token or session.local_token(url, data_dir)
    if credential is None:
        say(f"headrace: expected a token, found none\nhint: {running.WHERE_TOKENS_ARE}")
        raise typer.Exit(exit_codes.NOT_AUTHENTICATED)
    return session.Server(url, credential)


@app.command()
def doctor(
    *,
    data_dir: DataDirectory = None,
    host: Host = None,
    port: Port = None,
) -> None:
    """Look at what this machine has and lacks for headrace up with the same options; changes nothing.

    Exit codes: 0 it can run, 1 it cannot, 2 a setting is wrong.
    """
    from pydantic import ValidationError

    from headrace.cli.output import TablePrinter, say, terminal_width
    from headrace.client.wire import AnswerColumn
    from headrace.core.settings import Settings, faults
    from headrace.runtime.doctor import State, checks

    given: dict[str, Any] = {"data_dir": data_dir, "host": host, "port": port}
    try:
        settings = Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        say("\n".join(f"headrace: {fault}" for fault in faults(error)))
        raise typer.Exit(exit_codes.USAGE) from None
    results = checks(settings)
    broken = [check.name for check in results if check.state is State.MISSING]
    printer = TablePrinter(sys.stdout, width=terminal_width(sys.stdout))
    printer.start(
        tuple(AnswerColumn(name, "VARCHAR", True) for name in ("Check", "State", "Found", "What to do"))
    )
    printer.write(
        [
            (check.name, check.state.value, check.actual, "" if check.state is State.OK else check.fix)
            for check in results
        ]
    )
    printer.finish()
    say(f"headrace up cannot run here: {', '.join(broken)}." if broken else "headrace up can run here.")
    if broken:
        raise typer.Exit(exit_codes.STATEMENT_FAILED)


@app.command()
def backup(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New folder for the backup.")],
    *,
    url: Annotated[str, typer.Option(help="The server.", envvar="HEADRACE_URL")] = DEFAULT_URL,
    token: Annotated[
        str | None,
        typer.Option(
            help="Token of an administrator of the organization; default: the token that the server created.",
            envvar="HEADRACE_TOKEN",
        ),
    ] = None,
    role: Annotated[str, typer.Option(help="The role that owns the organization.")] = "orgadmin",
    data_dir: DataDirectory = None,
) -> None:
    """Back up the data directory of a server on this machine, while its queries run.

    The backup contains the catalog, its key, checkpoints, savepoints and materialized views, and can be read by its owner only.
    Exit codes: as for headrace sql.
    """
    from headrace.cli import running, session
    from headrace.cli.output import say

    credential = token or session.local_token(url, data_dir)
    if credential is None:
        say(f"headrace: expected a token, found none\nhint: {running.WHERE_TOKENS_ARE}")
        raise typer.Exit(exit_codes.NOT_AUTHENTICATED)
    raise typer.Exit(session.back_up(session.Server(url, credential), folder, role))


@app.command()
def restore(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the backup.")],
    *,
    data_dir: DataDirectory = None,
) -> None:
    """Write the data directory that a backup contains, into a directory that is missing or empty.

    Do not start the original again: both would run the same queries. Exit codes: 0 restored, 1 nothing was changed.
    """
    from platformdirs import user_data_path

    directory = data_dir or user_data_path("headrace")
    command = [sys.executable, "-m", "headrace.server.restore", str(folder), str(directory)]
    os.execve(sys.executable, command, dict(os.environ))  # noqa: S606


app.command("test")(testing.run_tests)


@app.command()
def version() -> None:
    """Print the version of this program."""
    from headrace import __version__

    typer.echo(f"headrace {__version__}")
