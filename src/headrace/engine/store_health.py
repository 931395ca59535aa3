"""Health of the stores in use: which stores answered the last test, when, and after which time.

A store is in use if a relation is over it, or if a continuous query reads or writes it. Each is tested at an interval, unless its type
declares that a test costs money (`StoreDescriptor.tested_unasked`). TEST STORE and the test of a new store count too. Results are kept in
memory: after a restart, the next test renews them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import structlog

from headrace.catalog import plan_names
from headrace.catalog.catalog import Catalog
from headrace.catalog.objects import Store, StoreFacts
from headrace.connectors.egress import Egress
from headrace.connectors.registry import connector
from headrace.core.errors import HeadraceError
from headrace.core.signals import Signal

log = structlog.get_logger()

AGAIN_S = 30.0
"""After a failed test, a store that is back is soon reported as ready."""
AT_ONCE = 4
"""Tests that run at the same time: a store that does not answer may occupy a thread for half a minute."""


@dataclass(frozen=True)
class StoreTest:
    """Result of a test that ended at a time; `message` is the error of a store that did not answer."""

    ended_at: datetime
    duration_ms: int
    message: str | None = None


class StoreHealth:
    """The last test of each store of one server. `run` uses one event loop; the other methods are called from any thread."""

    def __init__(self, catalog: Catalog, egress: Egress, *, interval_s: float) -> None:
        self._catalog = catalog
        self._egress = egress
        self._interval_s = interval_s
        self._tests: dict[str, StoreTest] = {}
        self.changed = Signal()
        """The signal of each test that ended."""

    def last(self, store: StoreFacts) -> StoreTest | None:
        """Return the last test of a store with its current properties; None if there was none since the start of the server."""
        test = self._tests.get(store.name)
        return test if test is not None and test.ended_at >= store.updated_at else None

    def problem(self, store: StoreFacts) -> str | None:
        """Return why the last test of a store failed; None if it did not."""
        test = self.last(store)
        return test.message if test is not None else None

    def measured(self, name: str, test: Callable[[], None]) -> None:
        """Run a test of a store, and keep its result. Raises what the test raises."""
        started, message = time.monotonic(), None
        try:
            test()
        except HeadraceError as error:
            message = error.text()
            raise
        finally:
            duration_ms = round((time.monotonic() - started) * 1000)
            self._tests[name] = StoreTest(datetime.now(UTC), duration_ms, message)
            self.changed.notify()

    async def run(self) -> None:
        """Test the stores in use at each interval, and those that did not answer sooner, until cancelled."""
        started = datetime.now(UTC)
        while True:
            await asyncio.sleep(min(self._interval_s, AGAIN_S))
            await self.test_all(partial(self.is_due, started=started, now=datetime.now(UTC)))

    def is_due(self, store: StoreFacts, started: datetime, now: datetime) -> bool:
        """True if the last test of a store failed, or if there was none for an interval, or since a start before that."""
        test = self.last(store)
        if test is None:
            return (now - started).total_seconds() >= self._interval_s
        return test.message is not None or (now - test.ended_at).total_seconds() >= self._interval_s

    async def test_all(self, is_due: Callable[[StoreFacts], bool] = lambda _store: True) -> None:
        """Test the stores in use that are due once, except those that are not to be tested unasked."""
        slots = asyncio.Semaphore(AT_ONCE)

        async def test(store: Store) -> None:
            async with slots:
                await asyncio.to_thread(self._test, store)

        await asyncio.gather(
            *[test(store) for store in await asyncio.to_thread(self._tested) if is_due(store)]
        )

    def _tested(self) -> list[Store]:
        names = {relation.store for relation in self._catalog.relations() if relation.store is not None}
        for query in self._catalog.unfinished_queries():
            names |= {place[0] for place in plan_names.places(query.plan)}
        stores = [store for name in sorted(names) if (store := self._catalog.store(name)) is not None]
        return [store for store in stores if connector(store.type).tested_unasked]

    def _test(self, store: Store) -> None:
        kind = connector(store.type)
        before = self.last(store)

        def test() -> None:
            self._egress.check(text for _, text in kind.addresses(store.properties))
            kind.test(store.properties)

        try:
            self.measured(store.name, test)
        except HeadraceError as error:
            if before is None or before.message is None:
                log.warning("store_away", store=store.name, type=store.type, reason=error.message)
        except Exception:  # a fault of one connector must not end the tests of the other stores
            log.exception("store_test_failed", store=store.name, type=store.type)
