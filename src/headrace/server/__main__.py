"""`python -m headrace.server`: the process behind `headrace up`. Settings come from the environment (`HEADRACE_…`)."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys

from pydantic import ValidationError

from headrace.core.errors import HeadraceError
from headrace.core.settings import SECRETS, Settings, faults
from headrace.server.logs import configure_logs


def main() -> int:
    """Serve; returns the exit code: 0 after a clean end, 1 when the server cannot start, 2 for wrong settings."""
    parser = argparse.ArgumentParser(prog="python -m headrace.server")
    parser.add_argument(
        "--with-kafka", type=int, metavar="PORT", help="start a Kafka broker there; 0 takes a free port"
    )
    arguments = parser.parse_args()
    try:
        settings = Settings()
    except ValidationError as error:
        for fault in faults(error):
            _say(fault)
        return 2
    # The processes that we start have no business with it.
    for name in SECRETS:
        os.environ.pop(name, None)
    configure_logs()
    # Imported here, so that wrong settings are reported before the slow imports.
    from headrace.server.process import serve

    try:
        asyncio.run(serve(settings, kafka_port=arguments.with_kafka))
    except HeadraceError as error:
        _say(error.text())
        return 1
    except asyncio.CancelledError:
        # A signal while the server was starting.
        return 0
    return 0


def _say(text: str) -> None:
    print(f"headrace: {text}", file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    raise SystemExit(main())
