"""A server whose drivers on a standalone cluster outlive it."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import psutil

from harness.process import HeadraceProcess
from headrace.engine.driver_folder import DriverFolder, KeptDriver

_DRIVER = "headrace.engine.driver"


class OutlivingServer(HeadraceProcess):
    """A server that can end without its drivers, which the next `start` takes over; `stop` ends everything."""

    def leave(self, number: int) -> None:
        """End the server by a signal, but not what outlives it."""
        os.kill(self.pid, number)
        self._ended([])

    def stop(self) -> None:
        """End the server with SIGTERM, and then its drivers with SIGKILL."""
        try:
            if self._guard is not None and self._guard.poll() is None:
                self.leave(signal.SIGTERM)
        finally:
            for _, kept in self._held():
                with suppress(ProcessLookupError):
                    os.killpg(kept.pid, signal.SIGKILL)

    def driver_pids(self) -> list[int]:
        """Return the Python processes of the drivers that may outlive a server, whichever server has started them."""
        return sorted(pid for _, kept in self._held() for pid in _drivers(kept.pid))

    def driver_folder(self) -> DriverFolder:
        """Return the folder of the only driver that may outlive the server."""
        ((folder, _),) = self._held()
        return folder

    def _held(self) -> list[tuple[DriverFolder, KeptDriver]]:
        folders = [DriverFolder(path) for path in (self.data_dir / "drivers").glob("*/")]
        every = [(folder, folder.kept()) for folder in folders if folder.is_held()]
        return [(folder, kept) for folder, kept in every if kept is not None]


def _drivers(guard: int) -> list[int]:
    with suppress(psutil.Error):  # it may be ending just now
        return [child.pid for child in psutil.Process(guard).children() if _DRIVER in child.cmdline()]
    return []
