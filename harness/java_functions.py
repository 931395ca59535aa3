"""The JAR of the functions in `tests/user_functions/java`, compiled against the classes of Flink's Table API."""

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


@cache
def functions_jar() -> bytes:
    """Return the JAR with all classes."""
    with tempfile.TemporaryDirectory() as folder:
        class_path = ":".join(map(str, jars("functions")))
        (compiler,) = jars("java-compiler")
        options = [f"-{_RELEASE}", "-proc:none", "-nowarn", "-cp", class_path, "-d", folder]
        command = [str(java_command()), "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-jar", str(compiler)]
        subprocess.run([*command, *options, str(SOURCES)], check=True)
        archive = Path(folder, "functions.jar")
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as jar:
            for path in sorted(Path(folder).rglob("*.class")):
                jar.write(path, path.relative_to(folder))
        return archive.read_bytes()
