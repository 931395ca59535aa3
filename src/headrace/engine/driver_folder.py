"""The folder by which a driver outlives its server, and the next server finds it (docs/adr/0096).

`<data-dir>/drivers/<id of the pool>/` contains the driver's scratch folder, the token that it and a server share, its lease for its guard,
`driver.json` for the next server, and a lock that the guard, the driver and its JVM hold as long as one of them lives.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import signal
import struct
import time
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, ValidationError
from pydantic import Field as ModelField

LEASE_MARGIN_S = 30.0
"""How much longer the guard lets a driver live than the driver waits for a server: it stops its queries in this time."""
RENEWAL_S = 1.0
_DEADLINE = struct.Struct("d")
_POLL_S = 0.1


class KeptDriver(BaseModel):
    """A driver as its server has started it: the process group, its socket, and a digest of its version, options and secrets."""

    pid: int
    socket: Path
    digest: str
    epoch: int = ModelField(description="The epoch of the server that has last commanded it.")


class DriverFolder:
    """The files of a pool's driver."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.work = path / "work"
        self.lease = path / "lease"
        self._lock = path / "lock"
        self._token = path / "token"
        self._kept = path / "driver.json"

    def create(self, token: str) -> None:
        """Create the folder anew. Raises OSError."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir(parents=True, mode=0o700)
        self._write(self._token, token.encode())
        self._lock.touch(mode=0o600)

    def remove(self) -> None:
        """Remove all files."""
        shutil.rmtree(self.path, ignore_errors=True)

    @property
    def token(self) -> str:
        """The token. Raises OSError."""
        return self._token.read_text(encoding="ascii")

    def hold(self) -> int:
        """Return a descriptor that holds the lock, together with other processes, until all its copies are closed. Raises OSError."""
        descriptor = os.open(self._lock, os.O_RDWR)
        try:
            # At most for a moment: a server that looks whether it is held takes it alone.
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def is_held(self) -> bool:
        """True if a process of the driver lives."""
        try:
            descriptor = os.open(self._lock, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def keep(self, driver: KeptDriver) -> None:
        """Record the driver for the next server. Raises OSError."""
        self._write(self._kept, driver.model_dump_json().encode())

    def kept(self) -> KeptDriver | None:
        """Return the driver that was recorded; None if there is none, or if another version has recorded it in another form."""
        try:
            return KeptDriver.model_validate_json(self._kept.read_bytes())
        except (OSError, ValidationError):
            return None

    def renew(self, seconds: float) -> None:
        """Let the guard wait for so many seconds from now on. Raises OSError."""
        self._write(self.lease, _DEADLINE.pack(time.monotonic() + seconds))

    async def end(self, pid: int | None, *, grace_s: float) -> bool:
        """End the process group `pid`, which holds the lock: by SIGTERM, and after `grace_s` by SIGKILL. Return True if no process of it
        lives any more; nobody takes the driver over meanwhile. Without `pid` (its server was killed as it started it), it ends by
        itself."""
        self._kept.unlink(missing_ok=True)
        # While the lock is held, a process of the group lives, and no other group has its number.
        for function, number in ((os.kill, signal.SIGTERM), (os.killpg, signal.SIGKILL)):
            if not self.is_held():
                break
            if pid is not None:
                with suppress(ProcessLookupError, PermissionError):
                    function(pid, number)
            await self._released(grace_s)
        return not self.is_held()

    async def _released(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self.is_held() and time.monotonic() < deadline:
            await asyncio.sleep(_POLL_S)

    def _write(self, file: Path, content: bytes) -> None:
        """Write a file as a whole, for this user alone."""
        new = file.with_suffix(".new")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as out:
            out.write(content)
        new.replace(file)
