"""A server that stands by: it follows the catalog that another server writes, answers statements that only read the catalog, and refuses
all others with the address of the leader."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, NoReturn, cast

import structlog
from fastapi import FastAPI

from headrace.catalog import identity
from headrace.catalog.catalog import Catalog
from headrace.catalog.lease import Lease, not_leading
from headrace.core.errors import ExternalError
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.engine.following import FollowingEngine
from headrace.server.app import create_app
from headrace.server.ports import ServerParts
from headrace.server.sharing import check_catalog
from headrace.server.wiring import keys_of, may_read_metrics
from headrace.session import StatementService
from headrace.sql.ast import Statement
from headrace.statements.base import Execution, Outcome, Services
from headrace.statements.registry import only_reads_catalog

if TYPE_CHECKING:
    from headrace.engine.engine import Engine

log = structlog.get_logger()

REFRESH_S = 1.0
REFRESH_SHARE = 10
REFRESH_MAX_S = 10.0
"""A catalog that takes long to read is read less often: after ten times as long, up to a limit, since a read may be slow only once.
The first one takes seconds on a busy machine, while the server starts."""
OUTAGE_S = 10.0
"""Time without a new state of the catalog after which reads are refused."""


@asynccontextmanager
async def standing_by(settings: Settings, lease: Lease) -> AsyncIterator[FastAPI]:
    """Yield the application of a server that stands by.

    Raises UserError for what it does not share with the leader, and ExternalError 57015 while the catalog cannot be read.
    """
    keys = keys_of(settings)
    if settings.catalog_url is None or settings.shared_dir is None or keys is None:
        raise RuntimeError("the settings were not checked")
    url = settings.catalog_url.get_secret_value()
    catalog, refresh = await asyncio.to_thread(Catalog.follow, url, keys, lease)
    engine = FollowingEngine(catalog, settings, lease)
    # Statements that need more than this part of the engine are refused with the address of the leader.
    services = Services(catalog, cast("Engine", engine), settings)
    freshness = Freshness()
    try:
        organization = catalog.organization()
        if organization.data_directory is None:
            raise ExternalError(SqlState.REMOTE_UNAVAILABLE, "the server that leads has not started yet")
        identity.refuse_unshared(organization, settings.durable_dir)
        check_catalog(settings, catalog.snapshot())
        refreshing = asyncio.create_task(_refresh_always(refresh, freshness), name="refresh catalog")
        try:
            yield create_app(
                ServerParts(
                    settings,
                    StandbyStatements(services, lease, freshness),
                    catalog.authenticate,
                    ended=catalog.ended,
                    accounts=catalog,
                    audit=catalog.audit.record,
                    may_read_metrics=partial(may_read_metrics, catalog),
                    leads=False,
                )
            )
        finally:
            refreshing.cancel()
            with suppress(asyncio.CancelledError):
                await refreshing
    finally:
        await engine.stop()
        await asyncio.to_thread(catalog.close)


class Freshness:
    """The time until which the last state of the catalog is new enough for readers, by the monotonic clock."""

    def __init__(self) -> None:
        self._until = time.monotonic() + OUTAGE_S

    def extend(self, pause_s: float) -> None:
        """Note that the state was read, and is read again after the pause."""
        self._until = time.monotonic() + pause_s + OUTAGE_S

    def require(self) -> None:
        """Raise ExternalError 57015 if the state is too old."""
        if time.monotonic() > self._until:
            raise ExternalError(
                SqlState.REMOTE_UNAVAILABLE,
                f"this server has not been able to read the catalog for {OUTAGE_S:.0f} s",
                hint="Try again, or connect to the server that leads.",
            )


class StandbyStatements(StatementService):
    """Runs statements that only read the catalog. Raises ExternalError 57P03, whose hint is the address of the leader, for all others, and
    57015 while the catalog cannot be read."""

    def __init__(self, services: Services, lease: Lease, freshness: Freshness) -> None:
        super().__init__(services)
        self._lease = lease
        self._freshness = freshness

    async def check(self, *_text: object, **_options: object) -> NoReturn:
        """Refuse to check a text: the limits of compute pools depend on what runs."""
        raise not_leading(self._lease.leader)

    plan = check

    async def _run(self, statement: Statement, identifier: str, run: Execution) -> Outcome:
        if not only_reads_catalog(statement):
            raise not_leading(self._lease.leader)
        self._freshness.require()
        return await super()._run(statement, identifier, run)


def pause_after(read_s: float) -> float:
    """Return the seconds between a read of the catalog that took `read_s` and the next one."""
    return min(max(REFRESH_S, REFRESH_SHARE * read_s), REFRESH_MAX_S)


async def _refresh_always(refresh: Callable[[], None], freshness: Freshness) -> None:
    while True:
        before = time.monotonic()
        pause_s = REFRESH_S
        # Until the catalog can be read, users are those of the last state.
        try:
            await asyncio.to_thread(refresh)
            pause_s = pause_after(time.monotonic() - before)
            freshness.extend(pause_s)
        except ExternalError:
            pass  # logged by the storage
        except Exception as error:
            # Such as a catalog that a leader of another release has upgraded.
            log.exception("catalog_not_read", reason=str(error))
        await asyncio.sleep(pause_s)
