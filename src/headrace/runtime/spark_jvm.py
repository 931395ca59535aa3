"""The JVM that Spark runs in: its command line, its start, and the archive of classes that makes that start short.

pyspark would run spark-submit, which starts one JVM to find out how to start another, and lists a jar twice, with which a
JVM reads no archive of classes. ADR 12 has the reasons and the figures.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from headrace.core.errors import InternalError
from headrace.runtime.extension import extension_jar, pyspark_folder, spark_class_path
from headrace.runtime.java import java_runtime, refuse_java_options, spark_java
from headrace.runtime.paths import cache_dir

_GATEWAY = "org.apache.spark.api.python.PythonGatewayServer"
_START_TIMEOUT_S = 300.0
_ARCHIVE_TIMEOUT_S = 600
_ARCHIVES_KEPT = 3
_STARTED: list[subprocess.Popen[bytes]] = []
"""The running JVMs. The list keeps their pipes open: the gateway ends its JVM at the end of its standard input.

That is how a JVM ends with its Python process even if that is killed: nobody else closes the pipe.
"""


@contextmanager
def spark_jvm(
    *,
    memory_mb: int,
    options: Sequence[str] = (),
    jars: Sequence[Path] = (),
    ended: Callable[[int], None] | None = None,
    inherited: Sequence[int] = (),
) -> Iterator[None]:
    """Start a JVM for the Spark session that is created in this block; it ends with this process.

    `memory_mb` is its heap in MiB, `jars` are further ones on its class path. `ended` is called from a thread, with the exit code (a
    signal's is negative), when the JVM has ended though nobody called `kill_spark_jvm`. The JVM keeps the descriptors `inherited` open.
    Raises InternalError when it does not come up, UserError if that is due to HEADRACE_JAVA_OPTIONS, and what `jars`, `extension_jar` and
    `java_runtime` raise.
    """
    # Half of a start is loading and verifying some 15,000 classes of Spark; from an archive they are mapped into memory. A start
    # without one works too, only slower, so that an archive is optional.
    archive = class_archive()
    shared = [f"-XX:SharedArchiveFile={archive}"] if archive.is_file() else []
    with tempfile.TemporaryDirectory(prefix="headrace-jvm-") as folder:
        connection_file = Path(folder, "connection")
        paths = {"SPARK_HOME": str(pyspark_folder()), "_PYSPARK_DRIVER_CONN_INFO_PATH": str(connection_file)}
        command = _command(memory_mb, [*shared, *options], _GATEWAY, jars=jars)
        process = subprocess.Popen(
            command, env={**os.environ, **paths}, stdin=subprocess.PIPE, pass_fds=inherited
        )
        _STARTED.append(process)
        port, secret = _connection(process, connection_file, options)
    if ended is not None:
        threading.Thread(target=_watch, args=(process, ended), name="jvm", daemon=True).start()
    # Where pyspark looks before it starts a JVM of its own; other processes that this one starts are not to know it.
    os.environ.update(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret)
    try:
        yield
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]


def kill_spark_jvm() -> None:
    """End what `spark_jvm` started, without shutdown hooks: there is nothing to save, and they can hang on a store."""
    while _STARTED:
        _STARTED.pop().kill()


def _watch(process: subprocess.Popen[bytes], ended: Callable[[int], None]) -> None:
    code = process.wait()
    if process in _STARTED:
        ended(code)


def _connection(
    process: subprocess.Popen[bytes], connection_file: Path, options: Sequence[str]
) -> tuple[int, str]:
    """Return the port and the secret that the JVM, which has these options, writes into the file `connection_file` when it is up."""
    deadline = time.monotonic() + _START_TIMEOUT_S
    while not connection_file.is_file():
        if process.poll() is not None or time.monotonic() > deadline:
            ended = process.poll()
            process.kill()
            if ended is not None:
                refuse_java_options(options)
            raise InternalError(
                f"the JVM of Spark did not start within {_START_TIMEOUT_S:.0f} s"
                if ended is None
                else f"the JVM of Spark ended with exit code {ended} while it started",
                hint="The log contains its output above this line.",
            )
        time.sleep(0.02)
    written = connection_file.read_bytes()
    port, length = struct.unpack_from("!ii", written)
    return port, written[8 : 8 + length].decode()


def class_archive() -> Path:
    """Return the path of the archive of classes for this Java and these jars, present or not."""
    runtime = java_runtime()
    digest = hashlib.sha256(f"{runtime.home} {runtime.version}".encode())
    for jar in _class_path():
        # What the JVM compares too: it refuses an archive of other jars.
        facts = jar.stat()
        digest.update(f"\0{jar} {facts.st_size} {facts.st_mtime_ns}".encode())
    return cache_dir() / "classes" / f"{digest.hexdigest()[:16]}.jsa"


@contextmanager
def recorded_classes() -> Iterator[list[str]]:
    """Yield JVM options for one run of Spark; at its end, the loaded classes are put into the archive.

    Raises InternalError with the JVM's words when it does not make one.
    """
    archive = class_archive()
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=".making-") as folder:
        names, class_archive_path = Path(folder, "names"), Path(folder, "classes.jsa")
        yield [f"-XX:DumpLoadedClassList={names}"]
        options = [
            "-Xshare:dump",
            f"-XX:SharedClassListFile={names}",
            f"-XX:SharedArchiveFile={class_archive_path}",
        ]
        result = subprocess.run(
            _command(1024, options),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_ARCHIVE_TIMEOUT_S,
            check=False,
        )
        if result.returncode or not class_archive_path.is_file():
            raise InternalError(f"the JVM created no archive of classes:\n{result.stdout[-2000:].strip()}")
        shutil.move(class_archive_path, archive)
    # Each is large, and each change of the extension makes another.
    by_age = sorted(archive.parent.glob("*.jsa"), key=lambda path: path.stat().st_mtime)
    for old in by_age[:-_ARCHIVES_KEPT]:
        old.unlink(missing_ok=True)


# Kafka's clients are given no login but those that we write down, and fetch nothing from a URL themselves; should a setting slip
# through nevertheless, these ways of loading classes and files by one are closed.
CLIENT_JAVA_OPTIONS = (
    "-Dorg.apache.kafka.disallowed.login.modules=com.sun.security.auth.module.JndiLoginModule,"
    "com.sun.security.auth.module.LdapLoginModule,com.sun.security.auth.module.Krb5LoginModule",
    "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=",
)

# For `io.headrace.spark.ClassPath`.
_CLASS_PATH = ("--add-opens=java.base/jdk.internal.loader=ALL-UNNAMED",)


def _command(memory_mb: int, options: Sequence[str], *main: str, jars: Sequence[Path] = ()) -> list[str]:
    # Further jars come last: the archive of classes is of the class path that begins the same.
    class_path = os.pathsep.join(map(str, [*_class_path(), *jars]))
    return [*spark_java(memory_mb), *CLIENT_JAVA_OPTIONS, *_CLASS_PATH, *options, "-cp", class_path, *main]


def _class_path() -> list[Path]:
    return [extension_jar(), *spark_class_path()]
