"""Commands of workers of functions, on the machine of this process: the server's, or that of an executor of a cluster.

`of_java` and `of_python` return the argument of `runtime/confined.py`, but for `confined`: the command, the files that it may read, and the
limit of its memory. `launching` returns the command of that program.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import pyarrow

from headrace.runtime import confined
from headrace.runtime.extension import pyspark_folder
from headrace.runtime.java import java_runtime

_MAIN = "io.headrace.functions.FunctionWorker"
_OF_SPARK = (
    "arrow-",
    "flatbuffers-",
    "slf4j-api-",
    "netty-buffer-",
    "netty-common-",
    "jackson-",
    "scala-library-",
)
"""What the worker needs of the jars of pyspark: Arrow and the library of Scala."""
_SYSTEM = (
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/etc/ld.so.cache",
    "/usr/share/zoneinfo",
    "/dev/null",
    "/dev/random",
    "/dev/urandom",
)
_CERTIFICATES = ("/etc/ssl", "/etc/pki", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates")
"""What a function reads that connects by TLS."""
_JAVA_OPTIONS = (
    "-Xss1m",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-XX:-UseContainerSupport",
    "-XX:+ExitOnOutOfMemoryError",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
)
_JAVA_NETWORK = ("--add-opens=java.base/java.io=ALL-UNNAMED", "--add-opens=java.base/java.net=ALL-UNNAMED")
"""With which `HostNames.scala` looks names up."""
_OVERHEAD_MB = 512
"""What a JVM needs beside its heap: classes, compiled code, stacks and Arrow's buffers."""
_PYTHON_WORKER = str(Path(__file__).with_name("python_worker.py"))
_PYTHON_OVERHEAD_MB = 128
"""What the interpreter and Arrow need."""


def of_java(
    jars: Sequence[Path], libraries: Sequence[Path], memory_mb: int, *, connects: bool = False
) -> dict[str, object]:
    """Return the worker of functions of `jars`, in the first of which their classes are. `libraries` are the worker's own jars, and
    `connects` is true if it connects to other hosts."""
    home, of_spark = java_runtime().home, sorted((pyspark_folder() / "jars").glob("*.jar"))
    class_path = [*map(str, libraries), *(str(jar) for jar in of_spark if jar.name.startswith(_OF_SPARK))]
    heap = [f"-Xmx{memory_mb}m", f"-XX:MaxDirectMemorySize={memory_mb}m"]
    options = (*_JAVA_OPTIONS, *(_JAVA_NETWORK if connects else ()))
    start = [str(home / "bin" / "java"), *heap, *options, "-cp", os.pathsep.join(class_path), _MAIN]
    return {
        "command": [*start, *map(str, jars)],
        "read": [
            str(home.resolve()),
            *_linked(home),
            *class_path,
            *map(str, jars),
            *_SYSTEM,
            *(_CERTIFICATES if connects else ()),
        ],
        "memory_mb": 2 * memory_mb + _OVERHEAD_MB,
    }


@cache
def _linked(home: Path) -> tuple[str, ...]:
    """Return what a Java links to outside of its folder: distributions keep its configuration in /etc."""
    links = (path for part in ("conf", "lib") for path in (home / part).rglob("*") if path.is_symlink())
    return tuple(str(path.resolve()) for path in links)


def of_python(
    module: Path, packages: Sequence[Path], memory_mb: int, *, connects: bool = False
) -> dict[str, object]:
    """Return the worker of functions of a module or wheel, which may import from the folders `packages`. `connects` is as
    above."""
    site = Path(pyarrow.__file__).parent.parent
    interpreters = {str(Path(path).resolve()) for path in (sys.base_prefix, sys.base_exec_prefix)}
    code = [str(module), *map(str, packages)]
    return {
        "command": [str(Path(sys.executable).resolve()), "-I", "-S", _PYTHON_WORKER, str(site), *code],
        "read": [
            *interpreters,
            _PYTHON_WORKER,
            *(str(path) for name in ("pyarrow*", "tzdata") for path in site.glob(name)),
            *code,
            *_SYSTEM,
            *(_CERTIFICATES if connects else ()),
        ],
        "memory_mb": memory_mb + _PYTHON_OVERHEAD_MB,
    }


def launching(worker: Mapping[str, object]) -> list[str]:
    """Return the command of the program that confines a worker, and becomes it."""
    return [sys.executable, "-I", "-S", confined.__file__, json.dumps(worker)]
