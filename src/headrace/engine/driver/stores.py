"""Availability of the running queries' stores.

Spark's clients wait for a store for minutes before they fail, and a query without new records may not even notice. So each store is asked
by a thread of its own, every few seconds, for as long as a query uses it. What is found is shown; to end a query is left to
Spark's clients, which go on by themselves once a store is back.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.core.errors import ExternalError, HeadraceError
from headrace.core.names import EntityPath
from headrace.core.sqlstate import SqlState
from headrace.engine.driver.builder import connector_module
from headrace.engine.protocol import StartQuery
from headrace.planner.physical import StoreStep

logger = logging.getLogger(__name__)

_INTERVAL_S = 2.0
SILENCE_S = 15.0
"""So long a store may be silent without a word about it: a broker may stop for seconds to write to its disk."""
_UNUSED_S = 10.0
"""Seconds without a request after which a store, or an entity, is not asked any more. The query that used it has ended."""
IDENTIFIED_S = 10.0
"""Seconds between two requests for the identity of an entity."""


class Store(NamedTuple):
    """A store as a query uses it."""

    name: str
    connector: str
    properties: tuple[tuple[str, str], ...]


def stores_of(start: StartQuery) -> list[Store]:
    """Return the stores that a query reads and writes."""
    return sorted(
        {
            store_of(start, step)
            for step in start.plan.steps
            if isinstance(step, StoreStep) and step.store in start.stores
        }
    )


def store_of(start: StartQuery, step: StoreStep) -> Store:
    """Return the store that a step uses."""
    return Store(step.store, step.connector, tuple(sorted(start.stores[step.store].items())))


class StoreSilentError(ExternalError):
    """The store of that name has not answered for SILENCE_S."""

    def __init__(self, store: str, reason: str) -> None:
        super().__init__(
            SqlState.REMOTE_UNAVAILABLE,
            f"the store {store!r} has not answered for {SILENCE_S:.0f} s: {reason}",
            hint="The query continues automatically when the store answers. Check that its servers are up, and the network.",
        )
        self.store = store


class StoreWatch:
    """The stores of recent requests. Use it from one thread only."""

    def __init__(self) -> None:
        self._watched: dict[Store, _Watched] = {}

    def silence(self, stores: list[Store]) -> StoreSilentError | None:
        """Return an error if one of `stores` has not answered for SILENCE_S."""
        now = time.monotonic()
        silent = [watched for store in stores if now - (watched := self._watch(store)).answered > SILENCE_S]
        return silent[0].error() if silent else None

    def identity(self, store: Store, entity: EntityPath, *, since: float) -> Mapping[str, str]:
        """Return the connector's `identify` for an entity; empty without an answer to a request after `since`."""
        identified = self._watch(store).entities.setdefault(entity, _Identified())
        identified.requested_at = time.monotonic()
        asked_at, answer = identified.answer
        return answer if asked_at > since else {}

    def _watch(self, store: Store) -> _Watched:
        watched = self._watched.get(store)
        if watched is None or watched.is_over:
            watched = self._watched[store] = _Watched(store)
        watched.asked = time.monotonic()
        return watched


@dataclass
class _Identified:
    """An entity's identity: the time of the last request, and the last answer with the time of its request."""

    requested_at: float = 0.0
    answer: tuple[float, Mapping[str, str]] = field(default=(-math.inf, {}))


class _Watched:
    """A watched store and the thread that asks it, which ends when nobody has requested an answer for _UNUSED_S."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._error: HeadraceError | None = None
        self.asked = self.answered = time.monotonic()
        self.entities: dict[EntityPath, _Identified] = {}
        self.is_over = False
        threading.Thread(target=self._ask, name=f"store-{store.name}", daemon=True).start()

    def error(self) -> StoreSilentError:
        reason = self._error.message if self._error else "it does not answer"
        return StoreSilentError(self._store.name, reason)

    def _ask(self) -> None:
        try:
            module = connector_module(self._store.connector)
            probe = module.probe(dict(self._store.properties))
            identify = module.identify(dict(self._store.properties)) if hasattr(module, "identify") else None
            while time.monotonic() - self.asked < _UNUSED_S:
                time.sleep(_INTERVAL_S)
                try:
                    probe()
                    self.answered = time.monotonic()
                    if identify is not None:
                        self._identify(identify)
                except HeadraceError as error:
                    self._error = error
            self.is_over = True
        except Exception:
            # The failure is not the store's, so the store counts as present.
            self.answered = math.inf
            logger.exception("the store %s cannot be asked whether it is there", self._store.name)

    def _identify(self, identify: Callable[[EntityPath], Mapping[str, str]]) -> None:
        for entity, identified in list(self.entities.items()):
            now = time.monotonic()
            if now - identified.requested_at > _UNUSED_S:
                self.entities.pop(entity)
            elif now - identified.answer[0] > IDENTIFIED_S:
                identified.answer = (now, identify(entity))
