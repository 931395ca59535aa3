"""The commands and their options."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from headrace.cli import exit_codes, testing
from headrace.cli.choices import OnError, Order, Output

if TYPE_CHECKING:
    from headrace.cli.desired_state import Desired
    from headrace.cli.profiles import Profile
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


DataDirectory = Annotated[
    Path | None, typer.Option(help="Data directory of the server.", envvar="HEADRACE_DATA_DIR")
]

Host = Annotated[str | None, typer.Option(help="Address to bind.", envvar="HEADRACE_HOST")]
Port = Annotated[
    int | None,
    typer.Option(help="Port to bind; 0 selects a free one.", envvar="HEADRACE_PORT", min=0, max=65535),
]
Url = Annotated[
    str | None,
    typer.Option(help=f"The server; default: that of the profile, or {DEFAULT_URL}.", envvar="HEADRACE_URL"),
]
ProfileName = Annotated[
    str | None,
    typer.Option(
        "--profile",
        help="Profile of headrace login; default: the one called default.",
        envvar="HEADRACE_PROFILE",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        help="Your token; default: the token that a server on this machine created.",
        envvar="HEADRACE_TOKEN",
    ),
]


OutputFormat = Annotated[
    Output | None, typer.Option("--output", "-o", help="Default: table on a terminal, ndjson elsewhere.")
]
Header = Annotated[bool, typer.Option("--header/--no-header", help="Print the names of columns.")]
Null = Annotated[str | None, typer.Option(help="Text of NULL in table, csv, tsv and markdown.")]
Variables = Annotated[
    list[str] | None,
    typer.Option(
        "--variable", "-v", metavar="NAME=VALUE", help="Value of :NAME in the statements; repeatable."
    ),
]
OnErrorChoice = Annotated[OnError, typer.Option("--on-error", help="After a statement that fails.")]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask before DROP, TERMINATE and CASCADE at the prompt.")
]
Vi = Annotated[bool, typer.Option("--vi", help="Edit the line as vi does.")]
LiveResults = Annotated[
    bool,
    typer.Option(
        "--live",
        help="On a terminal, show the current rows of a live result in a table that is redrawn, instead of each change.",
    ),
]
Commands = Annotated[
    list[str] | None,
    typer.Option(
        "--command",
        "-c",
        metavar="SQL",
        help="Statements to run; repeatable, as is -f: all run in the order of the command line.",
    ),
]
Files = Annotated[
    list[str] | None,
    typer.Option("--file", "-f", metavar="FILE", help="File of statements; - is stdin."),
]
RcFile = Annotated[bool, typer.Option("--rc/--no-rc", help="Run rc.sql of the configuration at the prompt.")]


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
    command: Commands = None,
    file: Files = None,
    output: OutputFormat = None,
    header: Header = True,
    null: Null = None,
    variable: Variables = None,
    on_error: OnErrorChoice = OnError.STOP,
    yes: Yes = False,
    vi: Vi = False,
    rc: RcFile = True,
    check: Annotated[
        bool, typer.Option("--check", help="Report all errors of the statements, and run none.")
    ] = False,
    max_rows: Annotated[int | None, typer.Option(help="End each result after this many rows.", min=1)] = None,
    timeout: Annotated[
        float | None,
        typer.Option(help=("End each live result after this many seconds; other results fail then."), min=0),
    ] = None,
    live: LiveResults = False,
    profile: ProfileName = None,
    url: Url = None,
    token: Token = None,
    data_dir: DataDirectory = None,
) -> None:
    """Run SQL: an interactive prompt, or the statements of -c, -f and standard input.

    Rows of a live result are written as they come; Ctrl-C ends it. Standard output has rows and nothing else, except with table. Exit
    codes: 0 ok, 1 a statement failed, 2 usage, 3 no connection, 4 not authenticated or not authorized, 130 interrupted.
    """
    from headrace.cli import running, session
    from headrace.cli.formats import Style, printer
    from headrace.cli.output import say
    from headrace.cli.screen import Screen

    chosen = output or (Output.TABLE if sys.stdout.isatty() else Output.NDJSON)
    is_prompt = not command and not file and not check and sys.stdin.isatty()
    screen = Screen() if is_prompt else None
    display = running.Display(
        printer(chosen, screen or sys.stdout, Style(header, null)),
        running.Limits(max_rows, timeout),
        screen,
        live=live,
        json_errors=chosen is Output.JSON,
        variables=_variables(variable or []),
    )
    server = _server(url, token, data_dir, profile)
    if screen is not None:
        raise typer.Exit(session.interact(server, display, screen, yes=yes, vi=vi, rc=rc))
    given = {"command": map(running.Text, command or []), "file": map(running.file_text, file or ["-"])}
    order = [name for name in ctx.meta[_ORDER] if name in given] or ["file"]
    try:
        texts = [next(given[name]) for name in order]
    except (OSError, UnicodeDecodeError) as error:
        say(f"headrace: cannot read the statements: {error}")
        raise typer.Exit(exit_codes.USAGE) from None
    if check:
        raise typer.Exit(session.check(server, texts))
    raise typer.Exit(session.run(server, texts, display, go_on=on_error is OnError.CONTINUE))


def _variables(given: list[str]) -> dict[str, str]:
    """Return the values of -v, or exit if one has no name."""
    pairs = [entry.partition("=") for entry in given]
    wrong = next((name for name, equals, _ in pairs if not equals or not name.isidentifier()), None)
    if wrong is not None:
        raise typer.BadParameter(f"expected NAME=VALUE, found {wrong}", param_hint="-v")
    return {name: value for name, _, value in pairs}


@app.command()
def validate(
    files: Annotated[list[str], typer.Argument(metavar="FILE…", help="Files of statements; - is stdin.")],
    *,
    profile: ProfileName = None,
    url: Url = None,
    token: Token = None,
    data_dir: DataDirectory = None,
) -> None:
    """Report all errors of the statements of files, and run none, as headrace sql --check does.

    Exit codes: 0 without errors, else as for headrace sql.
    """
    from headrace.cli import running, session
    from headrace.cli.output import say

    try:
        texts = [running.file_text(name) for name in files]
    except (OSError, UnicodeDecodeError) as error:
        say(f"headrace: cannot read the statements: {error}")
        raise typer.Exit(exit_codes.USAGE) from None
    raise typer.Exit(session.check(_server(url, token, data_dir, profile), texts))


@app.command()
def export(
    database: Annotated[str, typer.Argument(metavar="DATABASE", help="The database, as it is spelled.")],
    *,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="DIR|FILE.sql", help="Folder or file; default: standard output."),
    ] = None,
    profile: ProfileName = None,
    url: Url = None,
    token: Token = None,
    data_dir: DataDirectory = None,
) -> None:
    """Write the SQL that creates a database, with what it uses, in an order that runs.

    Secrets are replaced by ****; standard error says what else is missing. Exit codes: as for headrace sql.
    """
    from headrace.cli import desired_state

    raise typer.Exit(desired_state.export(_server(url, token, data_dir, profile), database, to))


Source = Annotated[
    Path, typer.Argument(metavar="DIR|FILE", help="A file of statements, or a folder with .sql files.")
]
Prune = Annotated[
    bool,
    typer.Option(
        "--prune", help="Drop what is in the databases that the files create, and is not in the files."
    ),
]


@app.command()
def plan(
    source: Source,
    *,
    prune: Prune = False,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Exit with 2 if there are changes.")
    ] = False,
    variable: Variables = None,
    profile: ProfileName = None,
    url: Url = None,
    token: Token = None,
    data_dir: DataDirectory = None,
) -> None:
    """Show what apply would create, update, replace and drop, and change nothing.

    Exit codes: as for headrace sql; 1 also for conflicts. With --detailed-exitcode, 2 means that there are changes.
    """
    from headrace.cli import desired_state

    desired = _desired(source, variable)
    server = _server(url, token, data_dir, profile)
    raise typer.Exit(desired_state.plan(server, desired, prune=prune, detailed=detailed_exitcode))


@app.command()
def apply(
    source: Source,
    *,
    prune: Prune = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    variable: Variables = None,
    profile: ProfileName = None,
    url: Url = None,
    token: Token = None,
    data_dir: DataDirectory = None,
) -> None:
    """Create and change what a folder of SQL describes, and leave what is as described. Nothing is dropped without --prune.

    Shows the plan and asks first. Stops at the first step that fails; run it again to continue. Exit codes: as for headrace sql.
    """
    from headrace.cli import desired_state

    desired = _desired(source, variable)
    raise typer.Exit(
        desired_state.apply(_server(url, token, data_dir, profile), desired, prune=prune, yes=yes)
    )


def _desired(source: Path, variable: list[str] | None) -> Desired:
    """Return the desired state of a file or a folder, or exit if it cannot be read."""
    from headrace.cli import desired_state
    from headrace.cli.output import say
    from headrace.client import ClientError

    try:
        return desired_state.read(source, _variables(variable or []))
    except (OSError, UnicodeDecodeError, ClientError) as error:
        say(f"headrace: cannot read the statements: {error}")
        raise typer.Exit(exit_codes.USAGE) from None


@app.command()
def tail(
    entity: Annotated[
        str,
        typer.Argument(
            metavar="STORE/ENTITY", help="For a table, STORE/SCHEMA/TABLE: one part for each name."
        ),
    ],
    *,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Start with the first record instead of the next one.")
    ] = False,
    output: OutputFormat = None,
    max_rows: Annotated[int | None, typer.Option(help="End after this many records.", min=1)] = None,
    timeout: Annotated[float | None, typer.Option(help="End after this many seconds.", min=0)] = None,
    profile: ProfileName = None,
    url: Url = None,
    token: Token = None,
    data_dir: DataDirectory = None,
) -> None:
    """Print the records of an entity as they come, until Ctrl-C: PRINT ENTITY for scripts.

    Names are taken as they are, with their capitals and dots. Exit codes: as for headrace sql.
    """
    from headrace.cli import running, session
    from headrace.cli.formats import printer
    from headrace.core.names import quote

    store, *path = entity.split("/")
    if not store or not path or not all(path):
        raise typer.BadParameter(f"expected STORE/ENTITY, found {entity}", param_hint="STORE/ENTITY")
    start = " WITH ('from_beginning')" if from_beginning else ""
    statement = f"PRINT ENTITY {'.'.join(map(quote, path))} IN STORE {quote(store)}{start}"
    chosen = output or (Output.TABLE if sys.stdout.isatty() else Output.NDJSON)
    display = running.Display(
        printer(chosen, sys.stdout), running.Limits(max_rows, timeout), json_errors=chosen is Output.JSON
    )
    server = _server(url, token, data_dir, profile)
    raise typer.Exit(session.run(server, [running.Text(statement)], display))


@app.command()
def top(
    *,
    order: Annotated[Order, typer.Option("--order", help="The largest value comes first.")] = Order.LAG,
    interval: Annotated[float, typer.Option(help="Seconds between two looks.", min=0.5)] = 2.0,
    iterations: Annotated[
        int | None,
        typer.Option(
            "--iterations", "-n", help="End after so many looks; without a terminal, after one.", min=1
        ),
    ] = None,
    output: OutputFormat = None,
    profile: ProfileName = None,
    url: Url = None,
    token: Token = None,
    data_dir: DataDirectory = None,
) -> None:
    """Show the queries with their state, rates, lag and findings, as they are now; q or Ctrl-C ends it.

    Without a terminal, or with -o, the rows are printed. Exit codes: as for headrace sql.
    """
    from headrace.cli import top as showing
    from headrace.cli.formats import printer

    is_screen = output is None and sys.stdout.isatty() and sys.stdin.isatty()
    out = None if is_screen else printer(output or Output.NDJSON, sys.stdout)
    server = _server(url, token, data_dir, profile)
    raise typer.Exit(showing.top(server, order=order, interval_s=interval, iterations=iterations, out=out))


@app.command()
def mcp(
    *,
    role: Annotated[str | None, typer.Option(help="Role of all tools; default: that of the token.")] = None,
    database: Annotated[str | None, typer.Option(help="Database of names without one.")] = None,
    schema: Annotated[str | None, typer.Option(help="Schema of names without one.")] = None,
    profile: ProfileName = None,
    url: Url = None,
    token: Token = None,
    data_dir: DataDirectory = None,
) -> None:
    """Serve MCP on standard input and output, for programs that follow a language model.

    The tools are those of the server at --url for your token: this command has no privileges of its own.
    """
    from headrace.cli import session

    names = {"role": role, "database": database, "schema": schema}
    raise typer.Exit(session.serve_mcp(_server(url, token, data_dir, profile), names))


def _server(url: str | None, token: str | None, data_dir: Path | None, profile: str | None) -> Server:
    """Return the server with the token, or exit if there is none. An option or a variable takes precedence over the profile."""
    from headrace.cli import running, session, token_store
    from headrace.cli.output import say
    from headrace.cli.profiles import DEFAULT, ProfileError, read_profile

    credential = token
    try:
        chosen = read_profile(profile)
        address = url or (chosen.url if chosen is not None else DEFAULT_URL)
        if chosen is not None and not chosen.serves(address):
            # The token of a profile is for its server and must not be sent to another one.
            chosen = None
        if chosen is not None and not credential:
            credential = token_store.token_of(profile or DEFAULT, chosen)
    except ProfileError as error:
        say(f"headrace: {error}")
        raise typer.Exit(exit_codes.USAGE) from None
    credential = credential or session.local_token(address, data_dir)
    if credential is None:
        say(f"headrace: expected a token, found none\nhint: {running.WHERE_TOKENS_ARE}")
        raise typer.Exit(exit_codes.NOT_AUTHORIZED)
    return session.Server(address, credential, chosen.context if chosen is not None else None)


@app.command()
def login(
    *,
    profile: Annotated[str, typer.Option(help="Name of the profile.", envvar="HEADRACE_PROFILE")] = "default",
    url: Annotated[str, typer.Option(help="The server.", envvar="HEADRACE_URL")] = DEFAULT_URL,
    role: Annotated[str | None, typer.Option(help="Role of the profile's sessions.")] = None,
    database: Annotated[str | None, typer.Option(help="Database of the profile's sessions.")] = None,
    schema: Annotated[str | None, typer.Option(help="Schema of the profile's sessions.")] = None,
    store: Annotated[str | None, typer.Option(help="Store of the profile's sessions.")] = None,
    user: Annotated[
        str | None, typer.Option(help="Sign in with a password, which creates a token for this machine.")
    ] = None,
    device: Annotated[
        bool,
        typer.Option(
            "--device",
            help="Sign in with single sign-on, by a code in a browser of any machine; creates a token, too.",
        ),
    ] = False,
    keyring: Annotated[
        bool, typer.Option("--keyring/--no-keyring", help="Store the token in the system's keyring.")
    ] = True,
) -> None:
    """Save a server as a profile in config.toml, and its token in the system's keyring; without a keyring in config.toml, with mode 0600.

    The token, or with --user the password, is asked for, or read from standard input, and is checked with the server first. The
    password is not saved: the token expires after 90 days, and DROP API_TOKEN ends it. Exit codes: as for headrace sql.
    """
    from headrace.cli import session
    from headrace.cli.profiles import Profile

    if device and user is not None:
        raise typer.BadParameter("expected --user or --device, found both", param_hint="--device")
    token: str | None
    if device:
        code, token = session.token_by_sign_in(
            url, lambda client: client.sign_in_by_device(session.show_device_code), role
        )
    elif user is not None:
        password = _secret(f"Password of {user}")
        code, token = session.token_by_sign_in(url, lambda client: client.sign_in(user, password), role)
    else:
        token = _secret("API token").strip()
        code = session.verify(session.Server(url, token))
    if code != exit_codes.OK:
        raise typer.Exit(code)
    given = {"role": role, "database": database, "schema": schema, "store": store}
    names = {key: name for key, name in given.items() if name is not None}
    _save(profile, Profile(url, token, names), keyring=keyring)


@app.command()
def logout(
    *,
    profile: Annotated[str, typer.Option(help="Name of the profile.", envvar="HEADRACE_PROFILE")] = "default",
) -> None:
    """Delete the token of a profile from this machine, from the keyring and from config.toml; the profile stays.

    The token itself stays valid until it expires, or until DROP API_TOKEN ends it. Exit codes: 0 deleted, 1 not deleted, 2 usage.
    """
    from dataclasses import replace

    from headrace.cli import token_store
    from headrace.cli.output import say
    from headrace.cli.profiles import ProfileError, read_profile, save_profile

    try:
        chosen = read_profile(profile)
    except ProfileError as error:
        say(f"headrace: {error}")
        raise typer.Exit(exit_codes.USAGE) from None
    if chosen is not None:
        try:
            token_store.delete(profile, chosen)
            save_profile(profile, replace(chosen, token=None, in_keyring=False))
        except (ProfileError, OSError) as error:
            say(f"headrace: {error}")
            raise typer.Exit(exit_codes.STATEMENT_FAILED) from None
    say(f"headrace: the profile {profile} has no token on this machine")


def _save(name: str, profile: Profile, *, keyring: bool) -> None:
    """Save a profile with its token in place of an earlier one; exit if that fails."""
    from dataclasses import replace

    from headrace.cli import token_store
    from headrace.cli.output import say
    from headrace.cli.profiles import ProfileError, config_file, find_profile, save_profile

    try:
        earlier = find_profile(name)
        in_keyring = keyring and token_store.save(name, profile)
        save_profile(name, replace(profile, in_keyring=in_keyring))
        # A token that nothing names any more must not stay in the keyring.
        if earlier is not None and earlier.in_keyring and not (in_keyring and earlier.serves(profile.url)):
            token_store.delete(name, earlier)
    except (ProfileError, OSError) as error:
        say(f"headrace: {error}")
        raise typer.Exit(exit_codes.STATEMENT_FAILED) from None
    place = "its token in the keyring" if in_keyring else "with its token"
    say(f"headrace: the profile {name} is in {config_file()}, {place}")


def _secret(asked: str) -> str:
    """Return what the user types without an echo, or a line of standard input."""
    if sys.stdin.isatty():
        return str(typer.prompt(asked, hide_input=True))
    return sys.stdin.readline().rstrip("\n")


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

    from headrace.cli import token_store
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
    results = [*checks(settings), token_store.check()]
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
        raise typer.Exit(exit_codes.NOT_AUTHORIZED)
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
