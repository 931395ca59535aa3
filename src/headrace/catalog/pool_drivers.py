"""The drivers that may live although their server has ended: where, and which server commands them (docs/adr/0096)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import structlog
from sqlalchemy import insert, select, update

from headrace.catalog import tables
from headrace.catalog.secrets import SecretBox
from headrace.catalog.storage import Storage
from headrace.core.errors import InternalError, UserError
from headrace.core.sqlstate import SqlState

log = structlog.get_logger()


@dataclass(frozen=True)
class PoolDriver:
    """The driver of a pool, of the server with `epoch`.

    `place` is the start of the machine and the data directory that it belongs to, and `host` the machine's name. It lives for at most
    `outlives_s` without a server; 0: it has ended.
    """

    epoch: int
    place: str
    host: str
    outlives_s: int


class PoolDrivers:
    """The stored drivers, at most one for each pool. Calls block."""

    def __init__(self, storage: Storage, box: Callable[[], SecretBox]) -> None:
        self._storage = storage
        self._box = box

    def all(self) -> dict[str, PoolDriver]:
        """Return the drivers, by the id of their pools."""
        rows = self._storage.rows(select(tables.pool_drivers))
        return {
            row["pool_id"]: PoolDriver(row["epoch"], row["place"], row["host"], row["outlives_s"])
            for row in rows
        }

    def claim(self, pool_id: str, place: str, host: str, outlives_s: int, *, after: int = 0) -> int:
        """Return the next epoch of a pool's driver, for the server that is to command it. It is later than `after`, that of a driver which
        this server has found: the catalog may be an older copy. Raises UserError 3D023 if the pool was dropped."""
        table = tables.pool_drivers
        values: dict[str, str | int] = {"place": place, "host": host, "outlives_s": outlives_s}
        with self._storage.transaction():
            if pool_id not in self._storage.state.by_id:
                raise UserError(
                    SqlState.COMPUTE_POOL_NOT_FOUND,
                    "the compute pool was dropped",
                    hint="LIST COMPUTE_POOLS shows the existing pools.",
                )
            rows = self._storage.rows(select(table.c.epoch).where(table.c.pool_id == pool_id))
            epoch: int = max(after, rows[0]["epoch"] if rows else 0) + 1
            values |= {"epoch": epoch}
            if rows:
                self._storage.execute(update(table).where(table.c.pool_id == pool_id).values(values))
            else:
                self._storage.execute(insert(table).values(pool_id=pool_id, **values))
        return epoch

    def keep(self, pool_id: str, epoch: int, text: str) -> None:
        """Record, encrypted, what a later server needs to take the driver over, unless a later server commands one of the pool."""
        self._update(pool_id, epoch, sealed=self._box().seal(text.encode(), pool_id))

    def kept(self) -> dict[str, tuple[int, str]]:
        """Return what `keep` has recorded and the last epoch, by the ids of the pools, except for records that no key opens."""
        texts = {}
        for pool_id, epoch, sealed in self._sealed():
            try:
                texts[pool_id] = epoch, self._box().open(sealed, pool_id).decode()
            except InternalError as error:
                log.warning("driver_record_unreadable", pool_id=pool_id, reason=error.message)
        return texts

    def seal_again(self) -> None:
        """Encrypt all records with the newest key, within a transaction."""
        table = tables.pool_drivers
        for pool_id, _, sealed in self._sealed():
            if self._box().opens(sealed, pool_id):
                again = self._box().sealed_again(sealed, pool_id)
                self._storage.execute(update(table).where(table.c.pool_id == pool_id).values(sealed=again))

    def release(self, pool_id: str, epoch: int) -> None:
        """Record that the driver has ended, unless a later server commands one of the pool."""
        self._update(pool_id, epoch, outlives_s=0, sealed=None)

    def _update(self, pool_id: str, epoch: int, **values: int | bytes | None) -> None:
        table = tables.pool_drivers
        ours = (table.c.pool_id == pool_id) & (table.c.epoch == epoch)
        with self._storage.transaction():
            self._storage.execute(update(table).where(ours).values(values))

    def _sealed(self) -> list[tuple[str, int, bytes]]:
        table = tables.pool_drivers
        rows = self._storage.rows(select(table).where(table.c.sealed.is_not(None)))
        return [(row["pool_id"], row["epoch"], row["sealed"]) for row in rows]
