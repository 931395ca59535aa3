"""`headrace test`: the tests of pipelines in the files of a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli import exit_codes

if TYPE_CHECKING:
    from headrace.testing.suite import Result

_OWN = ("data_dir", "host", "port", "token")
"""Settings of the servers that the command sets itself."""


def run_tests(
    places: Annotated[
        list[Path] | None,
        typer.Argument(metavar="DIR…", help="Folders and files of tests; default: the current folder."),
    ] = None,
    *,
    texts: Annotated[
        list[str] | None,
        typer.Option("-k", metavar="TEXT", help="Run the files whose path contains this text; repeatable."),
    ] = None,
    jobs: Annotated[
        int,
        typer.Option("--jobs", "-j", help="Files that run at a time, each with a server of its own.", min=1),
    ] = 1,
    timeout: Annotated[float, typer.Option(help="Seconds that a wait for rows may take.", min=1)] = 60.0,
    update: Annotated[
        bool, typer.Option("--update", help="Write the plans that explain expects into the files.")
    ] = False,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the results as JUnit's XML.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Setting of the servers, such as functions_memory_mb=512."),
    ] = None,
    list_only: Annotated[bool, typer.Option("--list", help="Print the files, and run none.")] = False,
) -> None:
    """Run tests of pipelines: .slt files, against a server and a Kafka broker of their own.

    Exit codes: 0 all passed, 1 a test failed, 2 usage, 3 the server or the broker did not start, 130 interrupted.
    """
    from headrace.cli.output import say
    from headrace.core.errors import HeadraceError
    from headrace.testing import junit as junit_xml
    from headrace.testing.script import ExpectationError
    from headrace.testing.suite import Options, files, run

    settings = _settings(setting or [])
    paths = _paths(files(places or [Path()], texts or []))
    if list_only:
        print("\n".join(map(str, paths)))
        return
    try:
        results = run(paths, Options(jobs, timeout, update, settings), _report)
    except (HeadraceError, ExpectationError, OSError) as error:
        say(f"headrace: {error}")
        raise typer.Exit(exit_codes.NO_CONNECTION) from None
    except KeyboardInterrupt:
        raise typer.Exit(exit_codes.INTERRUPTED) from None
    failed = sum(result.failure is not None for result in results)
    print(f"{len(results) - failed} passed, {failed} failed")
    if junit is not None:
        try:
            junit_xml.write(junit, results)
        except OSError as error:
            say(f"headrace: cannot write {junit}: {error.strerror}")
            raise typer.Exit(exit_codes.USAGE) from None
    raise typer.Exit(exit_codes.STATEMENT_FAILED if failed else exit_codes.OK)


def _paths(paths: list[Path]) -> list[Path]:
    """Return the paths; exit if there are none, or one is no file."""
    from headrace.cli.output import say

    missing = [path for path in paths if not path.is_file()]
    if missing or not paths:
        say(f"headrace: {missing[0]} does not exist" if missing else "headrace: no .slt file was selected")
        raise typer.Exit(exit_codes.USAGE)
    return paths


def _settings(pairs: list[str]) -> dict[str, str]:
    """Return the settings of `NAME=VALUE` pairs; exit if a name is unknown or reserved."""
    from headrace.cli.output import say
    from headrace.core.settings import Settings

    settings = dict(pair.partition("=")[::2] for pair in pairs)
    for name in settings:
        if name.lower() not in Settings.model_fields or name.lower() in _OWN:
            say(f"headrace: expected a setting of the server other than {', '.join(_OWN)}, found {name!r}")
            raise typer.Exit(exit_codes.USAGE)
    return settings


def _report(result: Result) -> None:
    state = "passed" if result.failure is None else "FAILED"
    print(f"{state} {result.path} ({result.seconds:.1f} s)", flush=True)
    if result.failure is not None:
        print("\n".join(f"  {line}" for line in result.failure.splitlines()), flush=True)
