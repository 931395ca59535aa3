"""Workers of users' functions: the command that starts one, confined, and the workers that snapshot queries borrow."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pyarrow
import structlog

from headrace.core.atomic_file import write_atomically
from headrace.core.errors import ExternalError, UserError
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.core.types import parse_type
from headrace.engine.functions.egress_proxy import EgressProxy
from headrace.engine.functions.packages import installed
from headrace.engine.functions.protocol import LentFunction, declaration
from headrace.engine.protocol import FunctionLaunch
from headrace.planner.duckdb_sql import type_name
from headrace.planner.physical import UserFunction
from headrace.runtime import confined
from headrace.runtime.extension import group_jars, pyspark_folder
from headrace.runtime.java import java_runtime

log = structlog.get_logger()

_GROUP = "functions"
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
_OVERHEAD_MB = 512
"""What a JVM needs beside its heap: classes, compiled code, stacks and Arrow's buffers."""
_IDLE_MAX = 4
_IDLE_S = 60.0
_SCRIPT = confined.__file__
_PYTHON_WORKER = str(Path(__file__).with_name("python_worker.py"))
_PYTHON_OVERHEAD_MB = 128
"""What the interpreter and Arrow need."""


@dataclass(frozen=True)
class _Worker:
    """A worker process of snapshot queries and the socket to it; `since` is when it was returned, by the monotonic clock."""

    socket: socket.socket
    process: subprocess.Popen[bytes]
    since: float = 0.0

    def end(self) -> None:
        self.socket.close()
        self.process.kill()
        self.process.wait()


@dataclass(frozen=True)
class LentWorker:
    """A worker that a snapshot query borrows: its socket, and how each function that the query calls is declared there, by its id."""

    socket: socket.socket
    functions: tuple[LentFunction, ...]
    timeout_s: float


class FunctionRuntime:
    """Starts workers of the functions that plans name; `read` returns the file of a function source by its digest, None without one."""

    def __init__(self, settings: Settings, read: Callable[[str], bytes | None]) -> None:
        self._settings = settings
        self._folder = settings.data_dir.resolve() / "functions"
        self._read = read
        self._idle: dict[tuple[str, str], list[_Worker]] = {}
        self._lock = threading.Lock()
        self._proxy = EgressProxy(settings.functions_egress)

    def prepare(self, functions: Sequence[UserFunction]) -> None:
        """Fetch and write what workers of these functions need, so that a start does not wait for it. Blocks; raises as `launches` does."""
        self.launches(functions, "")

    def warm_up(self) -> None:
        """Fetch what the workers of functions in Java need. Blocks; to be called before queries start that call one."""
        _class_path()

    def launches(self, functions: Sequence[UserFunction], scope: str) -> list[FunctionLaunch]:
        """Return how a driver starts the workers of these functions.

        A worker serves one `scope`, such as a role: what a function remembers of one role's rows is not to reach another's.
        Raises UserError 3D018 for a function source that was dropped, 0A000 for functions that cannot be run here.
        """
        return [self._launch(function, scope) for function in functions]

    @contextmanager
    def lent(self, functions: Sequence[UserFunction], scope: str) -> Iterator[list[LentWorker]]:
        """Lend a worker of each function source to a snapshot query. Raises as `launches` does.

        A worker whose query has failed is ended with it; the others wait a while for the next query of the scope.
        """
        workers: list[tuple[str, _Worker]] = []
        lent: list[LentWorker] = []
        fit = False
        try:
            for code in sorted({_worker_code(function) for function in functions}):
                of_source = [function for function in functions if _worker_code(function) == code]
                worker = self._taken(code, scope) or self._started(of_source[0], scope)
                workers.append((code, worker))
                declared = tuple(
                    LentFunction(
                        function.id,
                        _declaration(function),
                        number,
                        function.signature,
                        tuple(function.arguments),
                        function.result,
                        tuple(type_name(parse_type(kind)) for kind in function.arguments),
                        type_name(parse_type(function.result)),
                    )
                    for number, function in enumerate(of_source)
                )
                lent.append(LentWorker(worker.socket, declared, self._settings.functions_timeout_ms / 1000))
            yield lent
            fit = True
        finally:
            for code, worker in workers:
                if fit:
                    self._keep(code, scope, worker)
                else:
                    worker.end()

    def close(self) -> None:
        """End the workers of snapshot queries, and the proxy of connections."""
        with self._lock:
            idle, self._idle = self._idle, {}
        for worker in (each for workers in idle.values() for each in workers):
            worker.end()
        self._proxy.close()

    def _taken(self, code: str, scope: str) -> _Worker | None:
        with self._lock:
            mine = self._idle.get((code, scope))
            return mine.pop() if mine else None

    def _end_stale(self) -> None:
        """End the workers that have been idle for long."""
        latest = time.monotonic() - _IDLE_S
        with self._lock:
            stale = [each for workers in self._idle.values() for each in workers if each.since <= latest]
            self._idle = {
                key: kept
                for key, workers in self._idle.items()
                if (kept := [each for each in workers if each not in stale])
            }
        for worker in stale:
            worker.end()

    def _keep(self, code: str, scope: str, worker: _Worker) -> None:
        with self._lock:
            count = sum(map(len, self._idle.values()))
            if count < _IDLE_MAX:
                self._idle.setdefault((code, scope), []).append(replace(worker, since=time.monotonic()))
                timer = threading.Timer(_IDLE_S + 1, self._end_stale)
                timer.daemon = True
                timer.start()
                return
        worker.end()

    def _started(self, function: UserFunction, scope: str) -> _Worker:
        command = self._launch(function, scope).command
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                command, stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=subprocess.DEVNULL
            )
        return _Worker(ours, process)

    def _launch(self, function: UserFunction, scope: str) -> FunctionLaunch:
        if (
            "+" in function.digest
            and function.language == "python"
            and not self._settings.functions_requirements
        ):
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"the function {function.signature} requires packages, which functions of this server cannot",
                hint="Its operator allows it with HEADRACE_FUNCTIONS_REQUIREMENTS=on.",
            )
        launch = self._python(function) if function.language == "python" else self._java(function)
        launch["confined"] = _is_confined(self._settings)
        if launch["confined"] and function.egress:
            _check_egress(function)
            launch |= {"proxy": self._proxy.address(), "destinations": function.egress}
        return FunctionLaunch(
            id=function.id,
            signature=function.signature,
            source=f"{_worker_code(function)} {scope}",
            command=[sys.executable, "-I", "-S", _SCRIPT, json.dumps(launch)],
            declaration=base64.b64encode(_declaration(function)).decode(),
            result=function.result,
            timeout_ms=self._settings.functions_timeout_ms,
        )

    def _java(self, function: UserFunction) -> dict[str, object]:
        memory_mb = self._settings.functions_memory_mb
        home, class_path, jars = (
            java_runtime().home,
            _class_path(),
            [str(self._file(function, digest, "jar")) for digest in function.digest.split("+")],
        )
        heap = [f"-Xmx{memory_mb}m", f"-XX:MaxDirectMemorySize={memory_mb}m"]
        libraries = os.pathsep.join(map(str, class_path))
        return {
            "command": [str(home / "bin" / "java"), *heap, *_JAVA_OPTIONS, "-cp", libraries, _MAIN, *jars],
            "read": [str(home.resolve()), *map(str, class_path), *jars, *_SYSTEM],
            "memory_mb": 2 * memory_mb + _OVERHEAD_MB,
        }

    def _python(self, function: UserFunction) -> dict[str, object]:
        code, *requirements = function.digest.split("+")
        module, site = str(self._file(function, code, "py")), Path(pyarrow.__file__).parent.parent
        packages = [str(installed(self._file(function, digest, "txt"))) for digest in requirements]
        interpreter = Path(sys.executable)
        interpreters = {str(Path(path).resolve()) for path in (sys.base_prefix, sys.base_exec_prefix)}
        arrow = [str(path) for name in ("pyarrow*", "tzdata") for path in site.glob(name)]
        return {
            "command": [str(interpreter.resolve()), "-I", "-S", _PYTHON_WORKER, str(site), module, *packages],
            "read": [
                *interpreters,
                _PYTHON_WORKER,
                *arrow,
                module,
                *packages,
                *_SYSTEM,
                *(_CERTIFICATES if function.egress else ()),
            ],
            "memory_mb": self._settings.functions_memory_mb + _PYTHON_OVERHEAD_MB,
        }

    def _file(self, function: UserFunction, digest: str, ending: str) -> Path:
        """Return a file of the function's code; it is written once, under its digest."""
        path = self._folder / f"{digest}.{ending}"
        if path.is_file():
            return path
        content = self._read(digest)
        if content is None:
            raise UserError(
                SqlState.FUNCTION_SOURCE_NOT_FOUND,
                f"the code of the function {function.signature} no longer exists",
                hint="Create it again with the same code, then RESTART the query.",
            )
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_atomically(path, content, mode=0o600)
        except OSError as error:
            raise ExternalError(
                SqlState.CONFIGURATION_LIMIT_EXCEEDED,
                f"the file of a function cannot be written into functions/ in the data directory: {error.strerror}",
                hint="Free space on the disk, or correct the permissions.",
            ) from error
        return path


_JAVA_OPTIONS = (
    "-Xss1m",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-XX:-UseContainerSupport",
    "-XX:+ExitOnOutOfMemoryError",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
)


def _worker_code(function: UserFunction) -> str:
    """Return what identifies the workers that run a function: functions of one code share them, unless they may connect to other hosts."""
    return f"{function.digest} {','.join(function.egress)}" if function.egress else function.digest


def _check_egress(function: UserFunction) -> None:
    """Raise UserError 0A000 for a confined function that cannot connect."""
    if function.language == "java":
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"the function {function.signature} connects to {', '.join(function.egress)}, which confined functions in Java cannot",
            hint="Write it in Python. An operator who trusts the code of all functions sets HEADRACE_FUNCTIONS_CONFINED=off.",
        )


def _declaration(function: UserFunction) -> bytes:
    """Return what declares a function to its worker."""
    parameters = [parse_type(kind) for kind in function.parameters]
    return declaration(function.class_name, function.kind, parameters, parse_type(function.result))


@cache
def _class_path() -> tuple[Path, ...]:
    jars = sorted((pyspark_folder() / "jars").glob("*.jar"))
    return (*group_jars(_GROUP), *(jar for jar in jars if jar.name.startswith(_OF_SPARK)))


def _is_confined(settings: Settings) -> bool:
    """Return True if workers are to be confined. Raises UserError 0A000 where that is not possible though the operator wants it."""
    if not settings.functions_confined:
        return False
    if reason := confined.obstacle():
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"functions of users cannot be run on this machine, since their code cannot be confined: {reason}",
            hint="Use Linux 5.13 or newer with Landlock. An operator who trusts the code of all functions sets "
            "HEADRACE_FUNCTIONS_CONFINED=off.",
        )
    return True
