"""Installation of Flink on this machine."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from harness.virtual_environment import VirtualEnvironment
from headrace.core.errors import HeadraceError
from headrace.runtime.jars import jars

LOCK = Path(__file__).with_name("requirements.lock")
ENVIRONMENT = VirtualEnvironment("flink", LOCK)
JARS = "flink-peer"


class NotInstalledError(Exception):
    """Flink is not here, and why."""


@dataclass(frozen=True)
class Installation:
    """The Python that has PyFlink, and the jars that its distribution lacks."""

    python: Path
    jars: tuple[Path, ...]


def installed() -> Installation:
    """Flink as the lock names it. Raises `NotInstalledError`."""
    if not ENVIRONMENT.is_made:
        raise NotInstalledError("Apache Flink is not installed: `make flink` installs it (0.7 GB, from PyPI)")
    try:
        return Installation(ENVIRONMENT.python, tuple(jars(JARS)))
    except HeadraceError as error:
        raise NotInstalledError(f"Flink's Kafka connector is missing: {error.text()}") from error


def install() -> Installation:
    """Create the virtual environment if it is missing. Raises `NotInstalledError` if a package cannot be installed."""
    try:
        ENVIRONMENT.make()
    except subprocess.CalledProcessError as error:
        raise NotInstalledError(f"Apache Flink cannot be installed: {error.stderr.strip()[-600:]}") from error
    return installed()
