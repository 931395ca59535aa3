"""Comparison of a query's entities with those of its checkpoint. ADR 49 gives the reasons.

An offset is a number. In a topic that was deleted and created again it is a position among other records, and a query that continued
there would skip records silently. Therefore the identity of each entity is stored beside the offsets when the query begins. It is
compared at each start and while the query runs: that of topics and streams every ten seconds, that of written tables before a batch.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from headrace.connectors.checkpoint_store import CheckpointStore, has_offsets
from headrace.core.errors import UserError
from headrace.core.names import EntityPath
from headrace.core.sqlstate import SqlState
from headrace.engine.checkpoint_copy import IDENTITIES
from headrace.engine.driver.builder import connector_module
from headrace.engine.driver.stores import IDENTIFIED_S, Store, StoreWatch, store_of
from headrace.engine.protocol import StartQuery
from headrace.planner.physical import ReadEntity, ReadRows, WriteEntity, WriteRows

_Identify = Callable[[EntityPath], Mapping[str, str]]


class _Use(NamedTuple):
    """A step, and the entity that it reads or writes: a table, or an entity of records."""

    step: str
    store: Store
    entity: EntityPath
    is_written: bool
    is_table: bool


class Identities:
    """Identities of the entities that a query reads or writes exactly once; empty for stores without identities.

    `begin` and `compare` raise UserError 22000 where an entity is another one than the checkpoint belongs to.
    """

    def __init__(self, start: StartQuery, checkpoint: CheckpointStore) -> None:
        self._checkpoint = checkpoint
        self._uses = [
            _Use(
                step.id,
                store_of(start, step),
                step.entity,
                isinstance(step, WriteEntity | WriteRows),
                isinstance(step, ReadRows | WriteRows),
            )
            for step in start.plan.steps
            if isinstance(step, ReadEntity | ReadRows)
            or (isinstance(step, WriteEntity | WriteRows) and step.guarantee == "exactly_once")
            if step.store in start.stores and hasattr(connector_module(step.connector), "identify")
        ]
        self._known: dict[str, dict[str, str]] = {}
        self._identify: dict[Store, _Identify] = {}
        self._began = self._compared = 0.0

    def begin(self) -> None:
        """Compare the entities with those of the checkpoint, before anything is read. `keep` writes them.

        A checkpoint without identities, of an earlier release, takes those of now.
        """
        if not self._uses:
            return
        known = self._checkpoint.read(IDENTITIES)
        if known is not None and has_offsets(self._checkpoint):
            self._known = json.loads(known)
        self._identify = {
            use.store: connector_module(use.store.connector).identify(dict(use.store.properties))
            for use in self._uses
        }
        answers = {use: self._identify[use.store](use.entity) for use in self._uses}
        self._began = self._compared = time.monotonic()
        self._compare(answers)

    def keep(self) -> None:
        """Write the identities beside the offsets; to be called before the first batch.

        A query that was stopped while it was planned has no checkpoint, and so nothing that a later start would compare with.
        """
        if self._known:
            self._checkpoint.write(IDENTITIES, json.dumps(self._known))

    def compare(self, watch: StoreWatch) -> None:
        """Compare with the answers of the stores since the query began, and keep identities that are new."""
        if self._compare(
            {
                use: watch.identity(use.store, use.entity, since=self._began)
                for use in self._uses
                if not use.is_table
            }
        ):
            self.keep()

    def compare_written(self) -> None:
        """Compare the tables that the query writes; to be called before each batch. Does nothing IDENTIFIED_S after the last time.

        Between batches nobody asks: a question keeps a warehouse running, which costs money.
        """
        written = [use for use in self._uses if use.is_table and use.is_written]
        now = time.monotonic()
        if written and now - self._compared > IDENTIFIED_S:
            self._compared = now
            self._compare({use: self._identify[use.store](use.entity) for use in written})

    def _compare(self, answers: Mapping[_Use, Mapping[str, str]]) -> bool:
        """Return whether an answer names an entity that was not known."""
        new = False
        for use, answer in answers.items():
            known = self._known.setdefault(use.step, {})
            for entity, identity in answer.items():
                if entity not in known:
                    known[entity] = identity
                    new = True
                elif known[entity] != identity:
                    raise _unwritten(entity) if use.is_written else _unread(entity)
        return new


def _unread(entity: str) -> UserError:
    return UserError(
        SqlState.DATA_EXCEPTION,
        f"records may be missing: {entity!r} was deleted and created again, or another entity has its name now",
        hint="TERMINATE the query and create it again: it then starts at the starting position of its "
        "source. RESTART helps only after the entity that it read before was restored.",
    )


def _unwritten(entity: str) -> UserError:
    return UserError(
        SqlState.DATA_EXCEPTION,
        f"output may be missing: {entity!r}, to which the query writes exactly once, was deleted and created "
        "again, or another entity has its name now",
        hint="TERMINATE the query and create it again with 'starting.position' = 'earliest' to write all of "
        "its output. RESTART helps only after the entity that it wrote before was restored.",
    )
