"""Workers of users' functions: the command that starts one, confined, and the workers that snapshot queries borrow."""

from __future__ import annotations

import base64
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import structlog

from headrace.core.atomic_file import write_atomically
from headrace.core.errors import ExternalError, UserError
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.core.types import parse_type
from headrace.engine.functions import commands
from headrace.engine.functions.egress_proxy import EgressProxy
from headrace.engine.functions.on_worker import SentCode
from headrace.engine.functions.packages import archived, installed
from headrace.engine.functions.protocol import LentFunction, declaration
from headrace.engine.protocol import FunctionLaunch
from headrace.planner.duckdb_sql import type_name
from headrace.planner.physical import UserFunction
from headrace.planner.target import LOCAL, Target
from headrace.runtime import confined
from headrace.runtime.extension import group_jars

log = structlog.get_logger()

_GROUP = "functions"
_IDLE_MAX = 4
_IDLE_S = 60.0
_ON_WORKER = "headrace.engine.functions.on_worker"


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

    def prepare(self, functions: Sequence[UserFunction], target: Target = LOCAL) -> None:
        """Fetch and write what workers of these functions need, so that a start does not wait for it. Blocks; raises as `launches` does."""
        self.launches(functions, "", target)

    def warm_up(self) -> None:
        """Fetch what the workers of functions in Java need. Blocks; to be called before queries start that call one."""
        _libraries()

    def launches(
        self, functions: Sequence[UserFunction], scope: str, target: Target = LOCAL
    ) -> list[FunctionLaunch]:
        """Return how a driver, or the executors of a cluster, start the workers of these functions.

        A worker serves one `scope`, such as a role: what a function remembers of one role's rows is not to reach another's.
        Raises UserError 3D018 for a function source that was dropped, 0A000 for functions that cannot be run here.
        """
        launch = self._sent if target.is_cluster else self._launch
        return [launch(function, scope) for function in functions]

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
        launch = self._worker(function)
        launch["confined"] = _is_confined(self._settings)
        if launch["confined"] and function.egress:
            network = confined.PASSED if function.language == "python" else confined.SUPERVISED
            launch |= {
                "proxy": self._proxy.address(),
                "destinations": function.egress,
                "network": network,
            }
        return self._called(function, scope, commands.launching(launch))

    def files(self, functions: Sequence[UserFunction], target: Target) -> dict[str, str]:
        """Return the files that executors of a cluster need for these functions, by name, in base64; none of another target.

        Blocks, and raises as `launches` does.
        """
        files = {
            file.name: file
            for function in (functions if target.is_cluster else ())
            for file in (*self._sent_files(function), *_libraries_of(function))
        }
        return {name: base64.b64encode(file.read_bytes()).decode() for name, file in files.items()}

    def _sent(self, function: UserFunction, scope: str) -> FunctionLaunch:
        """Return how an executor starts a worker: by Headrace's Python there, which knows the paths of its machine, and with the files that
        the driver sends."""
        code = SentCode(
            language=function.language,
            files=[file.name for file in self._sent_files(function)],
            libraries=[jar.name for jar in _libraries_of(function)],
            memory_mb=self._settings.functions_memory_mb,
            is_confined=self._settings.functions_confined,
            destinations=function.egress,
            egress=list(self._settings.functions_egress),
        )
        return self._called(function, scope, ["-m", _ON_WORKER, code.model_dump_json()], on_executors=True)

    def _called(
        self, function: UserFunction, scope: str, command: list[str], *, on_executors: bool = False
    ) -> FunctionLaunch:
        return FunctionLaunch(
            id=function.id,
            signature=function.signature,
            source=f"{_worker_code(function)} {scope}",
            command=command,
            declaration=base64.b64encode(_declaration(function)).decode(),
            result=function.result,
            timeout_ms=self._settings.functions_timeout_ms,
            on_executors=on_executors,
        )

    def _worker(self, function: UserFunction) -> dict[str, object]:
        memory_mb, files = self._settings.functions_memory_mb, self._files(function)
        connects = bool(function.egress)
        if function.language == "java":
            return commands.of_java(files, _libraries_of(function), memory_mb, connects=connects)
        module, *requirements = files
        packages = [installed(file) for file in requirements]
        return commands.of_python(module, packages, memory_mb, connects=connects)

    def _sent_files(self, function: UserFunction) -> list[Path]:
        """Return the files of a function's code for another machine: the packages instead of their lists."""
        first, *others = self._files(function)
        return [first, *(others if function.language == "java" else map(archived, others))]

    def _files(self, function: UserFunction) -> list[Path]:
        """Return the files of a function's code: JARs, or a module or wheel and lists of requirements. Raises UserError 0A000 for lists
        that the operator does not allow."""
        first, others = ("jar", "jar") if function.language == "java" else ("py", "txt")
        digest, *more = function.digest.split("+")
        if more and function.language == "python" and not self._settings.functions_requirements:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"the function {function.signature} requires packages, which functions of this server cannot",
                hint="Its operator allows it with HEADRACE_FUNCTIONS_REQUIREMENTS=on.",
            )
        return [
            self._file(function, digest, first),
            *(self._file(function, other, others) for other in more),
        ]

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


def _worker_code(function: UserFunction) -> str:
    """Return what identifies the workers that run a function: functions of one code share them, unless they may connect to other hosts."""
    return f"{function.digest} {','.join(function.egress)}" if function.egress else function.digest


def _declaration(function: UserFunction) -> bytes:
    """Return what declares a function to its worker."""
    parameters = [parse_type(kind) for kind in function.parameters]
    return declaration(function.class_name, function.kind, parameters, parse_type(function.result))


@cache
def _libraries() -> tuple[Path, ...]:
    """Return the jars of the worker of functions in Java."""
    return tuple(group_jars(_GROUP))


def _libraries_of(function: UserFunction) -> tuple[Path, ...]:
    return _libraries() if function.language == "java" else ()


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
