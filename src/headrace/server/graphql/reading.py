"""Reads of system relations for one operation: each is a statement of the caller's role, and rows of one level are read together."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, TypeVar

from strawberry.dataloader import DataLoader

from headrace.catalog.objects import Principal
from headrace.core.context import SessionContext
from headrace.core.errors import HeadraceError
from headrace.core.names import SYSTEM_DATABASE, quote
from headrace.core.sqlstate import SqlState
from headrace.server.graphql.errors import too_busy
from headrace.server.metrics import Metrics
from headrace.server.ports import CatalogReader
from headrace.server.turns import NoTurnError, Turns
from headrace.sql import parse
from headrace.sql.ast import Statement
from headrace.statements.base import Execution
from headrace.statements.system import Reference, SystemRelation
from headrace.statements.system.paging import (
    Key,
    Page,
    PageRequest,
    Row,
    RowCondition,
    condition_of,
    grouped_rows,
    page_of,
    pages_by_reference,
    referred,
)

T = TypeVar("T")
SESSION_ID = "graphql"
"""The session of all operations of a user: they take turns."""


class Reads:
    """Reads for one operation."""

    def __init__(
        self,
        reader: CatalogReader,
        turns: Turns,
        metrics: Metrics,
        principal: Principal,
        context: SessionContext,
    ) -> None:
        self._reader = reader
        self._turns = turns
        self._metrics = metrics
        self._principal = principal
        self._context = context
        self._loaders: dict[object, DataLoader[Key, Any]] = {}

    async def page(
        self,
        relation: SystemRelation,
        conditions: Sequence[RowCondition],
        request: PageRequest,
        *,
        repeated: bool = False,
    ) -> Page:
        """Return a page of a relation. Raises HeadraceError and RefusedError."""
        return await self._read(
            relation, lambda run: page_of(relation, run, conditions, request), repeated=repeated
        )

    async def referred_row(self, relation: SystemRelation, reference: Reference, row: Row) -> Row | None:
        """Return the row that a row refers to; None if there is none, or if the role does not see it."""
        target, columns = referred(relation, reference)
        key = tuple(row[relation.places[column]] for column in reference.columns)
        tests = (
            condition.predicate(relation.places[condition.column]) for condition in condition_of(reference)
        )
        if None in key or not all(holds(row) for holds in tests):
            return None
        loader = self._loader((target.name, columns), partial(self._load_rows, target, columns))
        return await loader.load(key)  # type: ignore[no-any-return]

    async def referring_page(
        self,
        relation: SystemRelation,
        reference: Reference,
        key: Key,
        conditions: tuple[RowCondition, ...],
        request: PageRequest,
    ) -> Page:
        """Return a page of the rows of `relation` that refer to the row with that key."""
        what = (relation.name, reference.name, conditions, request)
        load = partial(self._load_pages, relation, reference, conditions, request)
        return await self._loader(what, load).load(key)  # type: ignore[no-any-return]

    def _loader(self, what: object, load: Callable[[list[Key]], Any]) -> DataLoader[Key, Any]:
        if what not in self._loaders:
            # Not cached: an event of a subscription reads again.
            self._loaders[what] = DataLoader(load, cache=False)
        return self._loaders[what]

    async def _load_rows(
        self, target: SystemRelation, columns: tuple[str, ...], keys: list[Key]
    ) -> list[Row | None]:
        requested = frozenset(keys)
        groups = await self._read(target, lambda run: grouped_rows(target, run, columns, requested))
        return [next(iter(groups.get(key, ())), None) for key in keys]

    async def _load_pages(
        self,
        relation: SystemRelation,
        reference: Reference,
        conditions: tuple[RowCondition, ...],
        request: PageRequest,
        keys: list[Key],
    ) -> list[Page]:
        requested = frozenset(keys)
        pages = await self._read(
            relation, lambda run: pages_by_reference(relation, run, reference, requested, conditions, request)
        )
        return [pages[key] for key in keys]

    async def _read(
        self, relation: SystemRelation, read: Callable[[Execution], T], *, repeated: bool = False
    ) -> T:
        start, state = time.perf_counter(), SqlState.INTERNAL_ERROR
        try:
            async with self._turns.turn((self._principal.user, SESSION_ID)):
                rows = await self._reader.read(
                    _statement(relation.schema, relation.name),
                    read,
                    principal=self._principal,
                    context=self._context,
                    repeated=repeated,
                )
            state = SqlState.SUCCESS
            return rows
        except NoTurnError:
            self._metrics.turned_away()
            raise too_busy() from None
        except HeadraceError as error:
            state = error.state
            raise
        finally:
            if not repeated:
                self._metrics.finished(state.value, time.perf_counter() - start)


@lru_cache(maxsize=256)
def _statement(schema: str, name: str) -> Statement:
    """Return the statement that a read is recorded as."""
    (statement,) = parse(f"SELECT * FROM {SYSTEM_DATABASE}.{schema}.{quote(name)}")  # noqa: S608 - our own names
    return statement
