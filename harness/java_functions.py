"""The JARs of the functions in `tests/user_functions/java` and of their libraries, compiled against the classes of Flink's Table API."""

from __future__ import annotations

import subprocess
import tempfile
import zipfile
from functools import cache
from pathlib import Path

from headrace.runtime.jars import jars
from headrace.runtime.java import java_command

SOURCES = Path(__file__).resolve().parents[1] / "tests/user_functions/java"
_RELEASE = "17"
_OF_LIBRARIES = ("com/example/library/", "com/fasterxml/")


def functions_jar() -> bytes:
    """Return the JAR with all classes but those of libraries."""
    return _jars()[0]


def libraries_jar() -> bytes:
    """Return the JAR with the libraries of the others."""
    return _jars()[1]


@cache
def _jars() -> tuple[bytes, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        class_path = ":".join(map(str, jars("functions")))
        (compiler,) = jars("java-compiler")
        options = [f"-{_RELEASE}", "-proc:none", "-nowarn", "-cp", class_path, "-d", folder]
        command = [str(java_command()), "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-jar", str(compiler)]
        subprocess.run([*command, *options, str(SOURCES)], check=True)
        classes = [str(path.relative_to(folder)) for path in sorted(Path(folder).rglob("*.class"))]
        libraries = [name for name in classes if name.startswith(_OF_LIBRARIES)]
        own = [name for name in classes if name not in libraries]
        return _jar(Path(folder), own), _jar(Path(folder), libraries)


def _jar(folder: Path, classes: list[str]) -> bytes:
    archive = folder / "classes.jar"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as jar:
        for name in classes:
            jar.write(folder / name, name)
    return archive.read_bytes()
