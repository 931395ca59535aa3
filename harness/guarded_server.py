"""A server in a process of its own, which ends with the process that started it, even when that is killed."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.patience import PATIENCE_S, until
from headrace.runtime.guard import guarded


class GuardedServer:
    """Server on loopback with its log in `folder`; a context manager. After `stop`, it starts again where it was.

    When it is stopped, it has `grace_s` seconds to end. Subclasses implement `_command`, and `_is_ready` if a server that accepts
    connections at `port` is not ready yet.
    """

    def __init__(self, folder: Path, *, grace_s: float = 10.0, cwd: Path | None = None) -> None:
        self._folder = folder
        self._grace_s = grace_s
        self._cwd = cwd
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self.port = 0

    def start(self) -> Self:
        """Return when the server is ready."""
        command = guarded(self._command(), grace_s=self._grace_s)
        with self._log_file.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self._cwd,
                env={**os.environ, **self._environment()},
            )
        until(self._runs_and_is_ready, self.log)
        return self

    def stop(self) -> None:
        """End the server as SIGTERM does, and with it every connection."""
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            process.stdin.close()
            process.wait(PATIENCE_S)

    def log(self) -> str:
        """Return the end of the server's output."""
        return self._log_file.read_text(errors="replace")[-4000:]

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def _log_file(self) -> Path:
        return self._folder / "server.log"

    def _command(self) -> list[str]:
        raise NotImplementedError

    def _environment(self) -> Mapping[str, str]:
        """Return further environment variables of the server."""
        return {}

    def _runs_and_is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log()
        return self._is_ready()

    def _is_ready(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
            return True
        return False

    def _ready_line(self) -> list[str] | None:
        """Return the words of the line `ready …` that the server has printed since its start; None before it has."""
        with self._log_file.open("rb") as log:
            log.seek(self._log_start)
            lines = [line.decode(errors="replace").split() for line in log if line.endswith(b"\n")]
        return next((line for line in lines if line[:1] == ["ready"]), None)
