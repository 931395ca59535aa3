"""The `headrace` command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

_OPTION = "--with-kafka"


def main() -> None:
    """Run the command line and exit with its code."""
    # httpx imports rich and pygments for its own command line, which would slow down each start by a fifth of a second.
    sys.modules["httpx._main"] = None  # type: ignore[assignment]
    from headrace.cli.commands import app

    try:
        app(with_kafka_port(sys.argv[1:]), prog_name="headrace")
    except BrokenPipeError:
        # The reader of our output has all it wanted (`| head`). Python would complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def with_kafka_port(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with `--with-kafka PORT` as `--with-kafka --kafka-port PORT`: typer has no option with an optional value."""
    result: list[str] = []
    for argument in arguments:
        if argument.startswith(_OPTION + "="):
            result += [_OPTION, "--kafka-port", argument.partition("=")[2]]
        elif result and result[-1] == _OPTION and argument.isdecimal():
            result += ["--kafka-port", argument]
        else:
            result.append(argument)
    return result


if __name__ == "__main__":
    main()
