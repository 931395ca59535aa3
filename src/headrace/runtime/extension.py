"""Compiles the JVM extension (``jvm/``, Scala) with the compiler that pyspark ships, on the JRE in use.

No JDK, sbt or Maven is needed. The jar is kept in the cache under a digest of everything it was made from, so
that a change of the sources, of Spark or of the Kafka connector compiles it anew and nothing else does.
``python -m headrace.runtime.extension`` compiles it and prints where it is; ``--test`` compiles and runs its
tests.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from headrace.core.errors import HeadraceError, InternalError
from headrace.runtime.jars import JVM_TEST, SPARK, coordinates, jars
from headrace.runtime.java import java_command, spark_java
from headrace.runtime.paths import cache_dir, package_folder, shipped, source_tree

_COMPILER_OPTIONS = ("-deprecation", "-feature", "-unchecked", "-Wunused", "-Werror", "-encoding", "UTF-8")
_COMPILE_TIMEOUT_S = 600
_TEST_TIMEOUT_S = 2700
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
_TEST_SUFFIXES = ("Suite", "Test")


def extension_jar() -> Path:
    """Return the compiled extension, for ``spark.jars`` and the driver's class path; compiles it when that is due.

    Raises `InternalError` with the compiler's messages when the sources do not compile.
    """
    jar = _jar_path()
    if not jar.is_file():
        _compile(
            _sources(_main_folder()),
            jar,
            classpath=spark_class_path(),
            resources=_main_folder() / "resources",
        )
    return jar


def group_jars(group: str) -> list[Path]:
    """Return the jars of a store type's group and the extension's jar for it, fetched and compiled if necessary.

    Raises what `jars` and `extension_jar` do.
    """
    fetched = jars(group)
    sources = _sources(_main_folder() / group)
    if not sources:
        return fetched
    part = cache_dir() / "extension" / _digest(sources, group) / f"headrace-{group}.jar"
    if not part.is_file():
        _compile(sources, part, classpath=[*fetched, *spark_class_path()], resources=None)
    return [*fetched, part]


def is_compiled() -> bool:
    """True if the cache contains the extension for the present sources."""
    return _jar_path().is_file()


def run_tests() -> int:
    """Compiles ``jvm/src/test/scala``, runs each ``…Suite`` and ``…Test`` in a Spark JVM; returns the code.

    Raises `InternalError` when there are no tests or they do not compile.
    """
    tree = source_tree()
    folder = tree / "jvm" / "src" / "test" if tree else None
    sources = _sources(folder) if folder and folder.is_dir() else []
    suites = [_class_name(source) for source in sources if source.stem.endswith(_TEST_SUFFIXES)]
    if folder is None or not suites:
        raise InternalError(
            "expected jvm/src/test/scala with a …Suite.scala or …Test.scala in it, found none"
        )
    extension, libraries = extension_jar(), jars(JVM_TEST)
    classpath = [extension, *libraries, *spark_class_path()]
    key = _digest([*sources, *_resources(folder), extension])
    tests = cache_dir() / "extension" / f"tests-{key}" / "headrace-spark-tests.jar"
    if not tests.is_file():
        _compile(sources, tests, classpath=classpath, resources=folder / "resources")
    # A failed test shows the failure of its query. Spark's log of thousands of small queries would only push it out of sight.
    settings = {"master": "local[2]", "ui.enabled": "false", "log.level": "FATAL"}
    command = [
        *spark_java(1024),
        "-XX:+UseSerialGC",
        *(f"-Dspark.{name}={value}" for name, value in settings.items()),
        "-cp",
        _joined([tests, *classpath]),
        "org.junit.runner.JUnitCore",
        *suites,
    ]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.run(command, env=environment, timeout=_TEST_TIMEOUT_S, check=False).returncode


def _main_folder() -> Path:
    folder = shipped("_jvm", in_tree="jvm/src/main")
    if folder is None:
        raise InternalError(
            "expected the sources of the JVM extension in the package, found none",
            hint="The installation is incomplete: install headrace again.",
        )
    return folder


def _sources(folder: Path) -> list[Path]:
    return sorted((folder / "scala").rglob("*.scala"))


def _resources(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "resources").rglob("*") if path.is_file())


def _class_name(source: Path) -> str:
    parts = source.with_suffix("").parts
    return ".".join(parts[parts.index("scala", parts.index("test")) + 1 :])


def _jar_path() -> Path:
    folder = _main_folder()
    key = _digest([*_sources(folder), *_resources(folder)])
    return cache_dir() / "extension" / key / "headrace-spark.jar"


def _digest(made_from: Sequence[Path], *groups: str) -> str:
    """Return a digest of these files, Spark's version, the connector jars and the compiler options."""
    digest = hashlib.sha256()
    libraries = (str(jar) for group in (SPARK, *groups) for jar in coordinates(group))
    for part in (_spark_core().name, *libraries, *_COMPILER_OPTIONS):
        digest.update(part.encode() + b"\0")
    for path in made_from:
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def pyspark_folder() -> Path:
    """Return the folder of pyspark. Raises `InternalError` when it is not installed."""
    folder = package_folder("pyspark", "pyspark")
    if folder is None:
        raise InternalError("the Python package pyspark is not installed", hint="Install headrace again.")
    return folder


def _spark_core() -> Path:
    """Return Spark's core jar: its name carries the versions of Spark and Scala."""
    return next((pyspark_folder() / "jars").glob("spark-core_*.jar"))


def spark_class_path() -> list[Path]:
    """Return Spark's jars and those of its connectors; raises what `jars` and `pyspark_folder` do."""
    return [*jars(SPARK), *sorted((pyspark_folder() / "jars").glob("*.jar"))]


def _joined(paths: Sequence[Path]) -> str:
    return os.pathsep.join(map(str, paths))


def _compile(
    sources: Sequence[Path], jar: Path, *, classpath: Sequence[Path], resources: Path | None
) -> None:
    if not sources:
        raise InternalError(f"expected Scala sources for {jar.name}, found none")
    jar.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=jar.parent, prefix=".compiling-") as folder:
        classes = Path(folder, "classes")
        classes.mkdir()
        arguments = Path(folder, "arguments")
        arguments.write_text("\n".join(f'"{path}"' for path in sources), encoding="utf-8")
        command = [
            str(java_command()),
            "-Xss8m",
            "-Xmx1g",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            str(pyspark_folder() / "jars" / "*"),
            "scala.tools.nsc.Main",
            *_COMPILER_OPTIONS,
            "-cp",
            _joined(classpath),
            "-d",
            str(classes),
            f"@{arguments}",
        ]
        result = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_COMPILE_TIMEOUT_S,
            check=False,
        )
        if result.returncode:
            raise InternalError(f"the JVM extension does not compile:\n{result.stdout.strip()}")
        archive = Path(folder, jar.name)
        _pack(archive, folders=[classes, *([resources] if resources else [])])
        archive.replace(jar)


def _pack(archive: Path, *, folders: Sequence[Path]) -> None:
    """Write a jar whose bytes depend only on its contents."""
    entries = {
        path.relative_to(folder).as_posix(): path
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file()
    }
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as jar:
        for name in sorted(entries):
            jar.writestr(zipfile.ZipInfo(name, _ZIP_EPOCH), entries[name].read_bytes(), zipfile.ZIP_DEFLATED)


def main(arguments: list[str]) -> int:
    """Compiles the extension, or with ``--test`` runs its tests; returns the exit code."""
    try:
        if arguments == ["--test"]:
            return run_tests()
        print(extension_jar())
    except HeadraceError as error:
        print(f"headrace: {error.text()}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
