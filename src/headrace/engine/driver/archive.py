"""Creates the archive of classes with which a driver starts sooner: `python -m headrace.engine.driver.archive`.

It contains the classes that a driver loads until it is warm. See `runtime.spark_jvm` and ADR 12.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from headrace.core.errors import HeadraceError, InternalError
from headrace.engine.driver.options import DriverOptions
from headrace.runtime.spark_jvm import class_archive, recorded_classes

_RECORD = "--record"


def main(arguments: list[str]) -> int:
    """Makes the archive unless it is there, and prints where it is; returns the exit code."""
    if arguments[:1] == [_RECORD]:
        return _start_once(DriverOptions.model_validate_json(arguments[1]))
    try:
        if not class_archive().is_file():
            _make()
        print(class_archive())
    except HeadraceError as error:
        print(f"headrace: {error.text()}", file=sys.stderr)
        return 1
    return 0


def _make() -> None:
    with tempfile.TemporaryDirectory(prefix="headrace-archive-") as folder, recorded_classes() as recording:
        plain = DriverOptions(work_dir=Path(folder))
        options = plain.model_copy(update={"java_options": " ".join([plain.java_options, *recording])})
        # In a process of its own, with which its JVM ends: only then is the list whole. Their common output lasts as long.
        command = [sys.executable, "-m", __spec__.name, _RECORD, options.model_dump_json()]
        result = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if result.returncode:
            raise InternalError(f"Spark did not start:\n{result.stdout[-2000:].strip()}")


def _start_once(options: DriverOptions) -> int:
    from headrace.engine.driver.session import start_session, throw_away_rows, warm_up

    session = start_session(options)
    warm_up(throw_away_rows(session), options.work_dir)
    session.stop()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
