"""The engine of a server that stands by: what statements need that only read the catalog (docs/adr/0086)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NoReturn, TypeVar

from headrace.catalog.catalog import Catalog
from headrace.catalog.lease import Lease, not_leading
from headrace.catalog.objects import QueryState, StoreFacts, UserFunction
from headrace.connectors.egress import Egress
from headrace.core.settings import Settings
from headrace.core.signals import Signal
from headrace.core.sqlstate import SqlState
from headrace.engine.functions.runtime import LentWorker
from headrace.engine.store_health import StoreHealth
from headrace.engine.views.opening import bounds_of, spill_folder
from headrace.engine.views.readers import Readers
from headrace.engine.views.snapshots import Snapshots
from headrace.planner.view_reads import ViewRead

T = TypeVar("T")


class OnLeader:
    """Part of an engine. Each attribute that a subclass does not define raises ExternalError 57P03."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease

    def __getattr__(self, _name: str) -> NoReturn:
        raise not_leading(self._lease.leader)


class FollowingEngine(OnLeader):
    """The part of `Engine` that needs the catalog only, since only the leader knows what runs."""

    def __init__(self, catalog: Catalog, settings: Settings, lease: Lease) -> None:
        super().__init__(lease)
        self._catalog = catalog
        self._snapshots = Snapshots(spill_folder(settings), bounds_of(settings))
        self._readers = Readers(self._snapshots.readers)
        self.functions = NoFunctions(lease)
        self.views = SystemRows(self._snapshots, lease)
        self.store_health = StoreHealth(catalog, Egress(settings.egress_allowed), interval_s=0)
        """Without results: the leader tests stores."""
        self.pushed: dict[str, Signal] = {}

    async def read_views(self, user: str, read: Callable[[], T]) -> T:
        """Call `read`, which queries system relations, in a reader. See `Engine.read_views`."""
        return await self._readers.read(user, read)

    def notice(self, _query_id: str) -> None:
        """Return None: only the leader has the warnings about running queries."""

    def silent_store(self, name: str) -> str | None:
        """Return a query's message about the store `name` that does not answer, as the leader has recorded it."""
        for query in self._catalog.unfinished_queries():
            waits = query.should_run and query.actual_state is QueryState.RESTARTING
            message = query.message or ""
            if (
                waits
                and query.sqlstate == SqlState.REMOTE_UNAVAILABLE.value
                and f"the store {name!r} " in message
            ):
                return message
        return None

    def store_problem(self, store: StoreFacts) -> str | None:
        """Return a query's message about a store that is away."""
        return self.silent_store(store.name)

    async def stop(self) -> None:
        """End the processes of queries."""
        await asyncio.to_thread(self._snapshots.close)


class NoFunctions(OnLeader):
    """The functions of users run on the leader only: their code may contact other systems."""

    @contextmanager
    def lent(self, functions: Sequence[UserFunction], _scope: str) -> Iterator[Sequence[LentWorker]]:
        """Lend no worker to a query that calls no function of users. Raises ExternalError 57P03 for any other query."""
        if functions:
            raise not_leading(self._lease.leader)
        yield ()


class SystemRows(OnLeader):
    """Queries of system relations. Raises ExternalError 57P03 for materialized views."""

    def __init__(self, snapshots: Snapshots, lease: Lease) -> None:
        super().__init__(lease)
        self._snapshots = snapshots

    def query(
        self,
        sql: str,
        timeout_s: float | None = None,
        *,
        reads: Sequence[ViewRead] = (),
        arrow_tables: Mapping[str, Any] | None = None,
        workers: Sequence[LentWorker] = (),
    ) -> tuple[tuple[tuple[str, str], ...], list[tuple[Any, ...]]]:
        """Run a query as `ViewStore.query` does."""
        if reads:
            raise not_leading(self._lease.leader)
        return self._snapshots.query(
            sql, timeout_s, arrow_tables or {}, lambda _left: nullcontext(iter(())), workers
        )
