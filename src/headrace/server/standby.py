"""A server that stands by: it follows the catalog that another server writes, and refuses statements with the address of the leader."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import NoReturn

import structlog
from fastapi import FastAPI

from headrace.catalog import identity
from headrace.catalog.audit import AuditEntry
from headrace.catalog.catalog import Catalog
from headrace.catalog.lease import Lease, not_leading
from headrace.catalog.objects import Principal
from headrace.core.context import SessionContext
from headrace.core.errors import ExternalError
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.server.app import create_app
from headrace.server.ports import ServerParts
from headrace.server.sharing import check_catalog
from headrace.server.wiring import keys_of, may_read_metrics
from headrace.statements.language import Language, language

log = structlog.get_logger()

REFRESH_S = 1.0
REFRESH_SHARE = 10
"""A catalog that takes long to read is read less often: for a tenth of the time at most."""


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
    try:
        organization = catalog.organization()
        if organization.data_directory is None:
            raise ExternalError(SqlState.REMOTE_UNAVAILABLE, "the server that leads has not started yet")
        identity.refuse_unshared(organization, settings.durable_dir)
        check_catalog(settings, catalog.snapshot())
        refreshing = asyncio.create_task(_refresh_always(refresh), name="refresh catalog")
        try:
            yield create_app(
                ServerParts(
                    settings,
                    StandbyStatements(lease),
                    catalog.authenticate,
                    ended=catalog.ended,
                    accounts=catalog,
                    audit=_log,
                    may_read_metrics=partial(may_read_metrics, catalog),
                    leads=False,
                )
            )
        finally:
            refreshing.cancel()
            with suppress(asyncio.CancelledError):
                await refreshing
    finally:
        await asyncio.to_thread(catalog.close)


class StandbyStatements:
    """Refuses statements with ExternalError 57P03, whose hint is the address of the leader."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease

    async def execute(self, *_text: object, **_options: object) -> NoReturn:
        """Refuse the text."""
        raise not_leading(self._lease.leader)

    check = plan = complete = execute

    async def language(self) -> Language:
        """Return the language of this version."""
        return await asyncio.to_thread(language)

    def settled(self, context: SessionContext, _principal: Principal) -> SessionContext:
        """Return the context as it is."""
        return context

    def readable_views(self, *_context: object) -> NoReturn:
        """Refuse to look."""
        raise not_leading(self._lease.leader)

    holds = readable_views


async def _refresh_always(refresh: Callable[[], None]) -> None:
    while True:
        before = time.monotonic()
        # Logged by the storage. Until the database answers, users are those of the last state.
        with suppress(ExternalError):
            await asyncio.to_thread(refresh)
        await asyncio.sleep(max(REFRESH_S, REFRESH_SHARE * (time.monotonic() - before)))


def _log(entry: AuditEntry) -> None:
    """Log what the audit log would have: only the leader writes that."""
    log.info(
        "audit_event",
        audited=entry.event.value,
        outcome=entry.outcome.value,
        user=entry.user,
        address=entry.address,
        detail=entry.detail,
    )
