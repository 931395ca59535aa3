"""Statements of a connection: the product's by the session layer, PostgreSQL's own words and queries of its catalog here."""

from __future__ import annotations

import datetime
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import ClassVar

import structlog

from headrace.catalog.objects import Principal
from headrace.core.errors import ErrorDomain, HeadraceError
from headrace.core.names import printed
from headrace.core.resultset import ResultSet
from headrace.core.sqlstate import SqlState
from headrace.server.metrics import Metrics
from headrace.server.ports import BoundedRunner
from headrace.server.postgres.answer import PARTIAL, QUERIES, READING, Answer, first_words
from headrace.server.postgres.authentication import SignedIn
from headrace.server.postgres.catalog.answers import CatalogQuery, Environment, answered
from headrace.server.postgres.catalog.choice import concerns_catalog
from headrace.server.postgres.catalog.rows import OpenCursor
from headrace.server.postgres.copying import copy_of
from headrace.server.postgres.cursors import Cursor, Fetched, closed_name, declaration_of, fetch_of, moved
from headrace.server.postgres.errors import PostgresError, converted
from headrace.server.postgres.own_words import (
    Setting,
    State,
    deallocated,
    own_answer,
    setting_of,
    shown,
)
from headrace.server.postgres.parameters import Bound, Substituted, substituted
from headrace.server.postgres.types import Column, column_of
from headrace.server.turns import NoTurnError, Turns

log = structlog.get_logger()

_DDL = ("Type", "Name", "Command", "Summary", "Path")
_TAG_WORDS = 2


class Dispatch:
    """Runs the statements of one connection."""

    def __init__(
        self, runner: BoundedRunner, turns: Turns, metrics: Metrics, user: SignedIn, state: State
    ) -> None:
        self._runner = runner
        self._turns = turns
        self._metrics = metrics
        self._user = user
        self.state = state
        self._turn = (user.user, f"postgres {uuid.uuid4()}")

    async def run(self, text: str, values: Sequence[Bound] = ()) -> Answer:
        """Run one statement. Raises PostgresError; its position is in `text`."""
        first = first_words(text)
        own = await self._own(first)
        if own is not None:
            return own
        if first[0] in PARTIAL or first[0] == "CLOSE":
            return await self._PARTS[first[0]](self, text, values)
        setting = setting_of(text, first)
        if setting is not None:
            return await self._set(setting, first[0])
        answer = shown(text, first, self.state.variables) or deallocated(text, first, self.state)
        if answer is not None:
            return answer
        if first[0] in QUERIES:
            return await self._query(text, values, first)
        return await self._product(text, values, first)

    async def describe(self, text: str, values: Sequence[Bound]) -> tuple[Column, ...] | None:
        """Return the columns of a statement's result, None if it has none or they are not known before it runs. `values` are NULLs."""
        first = first_words(text)
        if first[0] == "FETCH":
            return self.state.cursors.get(fetch_of(text).name).answer.columns
        if first[0] not in READING:
            return None
        self.state.refuse_failed()
        if first[0] not in QUERIES:
            answer = await self.run(text, values)
            await answer.close()
            return answer.columns
        if concerns_catalog(text):
            return (await self._catalog(CatalogQuery(text, tuple(values), is_described=True))).columns
        done = substituted(text, values)
        async with self._in_turn(done) as principal:
            columns = await self._runner.columns(done.text, principal=principal, context=self.state.context)
        return tuple(map(column_of, columns)) if columns is not None else None

    def lost(self, answer: Answer) -> str | None:
        """Return why the user may no longer read a result that is being produced; None while the user may."""
        self._user.principal()
        return answer.lost()

    async def use_role(self, role: str) -> None:
        """Activate a role. Raises PostgresError."""
        await self._product(f"USE ROLE {printed(role)}", (), ["USE", "ROLE"])

    async def _own(self, first: Sequence[str]) -> Answer | None:
        """Answer a statement that concerns the connection alone, and close the cursors that it ends."""
        before, cursors = self.state.transaction, self.state.cursors
        own = own_answer(first, self.state)
        if before != "I" and self.state.transaction == "I":
            await cursors.end_transaction(is_committed=own is not None and own.tag == "COMMIT")
        if own is not None and own.tag == "DISCARD ALL":
            await cursors.close_all()
        return own

    async def _query(self, text: str, values: Sequence[Bound], first: Sequence[str]) -> Answer:
        """Run a query of the product or of PostgreSQL's catalog."""
        if concerns_catalog(text):
            return await self._catalog(CatalogQuery(text, tuple(values)))
        return await self._product(text, values, first)

    async def _copy(self, text: str, values: Sequence[Bound]) -> Answer:
        copy = copy_of(text)
        with _moved_positions(copy.offset):
            answer = await self._query(copy.query, values, ("SELECT",))
        answer.copy = copy.format
        return answer

    async def _declare(self, text: str, values: Sequence[Bound]) -> Answer:
        declaration, cursors = declaration_of(text), self.state.cursors
        cursors.check(declaration, self.state.transaction)
        with _moved_positions(declaration.offset):
            answer = await self._query(declaration.query, values, ("SELECT",))
        is_held = declaration.is_held
        await cursors.open(
            Cursor(
                declaration.name,
                text,
                answer,
                is_held,
                datetime.datetime.now(datetime.UTC),
                is_committed=is_held and self.state.transaction == "I",
            )
        )
        return Answer("DECLARE CURSOR", notice=answer.notice)

    async def _fetch(self, text: str, _values: Sequence[Bound]) -> Answer:
        fetch = fetch_of(text)
        cursor = self.state.cursors.get(fetch.name)
        return Fetched("FETCH", cursor.answer.columns, cursor=cursor, left=fetch.count)

    async def _move(self, text: str, _values: Sequence[Bound]) -> Answer:
        fetch = fetch_of(text)
        return Answer(f"MOVE {await moved(self.state.cursors.get(fetch.name), fetch.count)}")

    async def _close_cursor(self, text: str, _values: Sequence[Bound]) -> Answer:
        name = closed_name(text)
        if name is None:
            await self.state.cursors.close_all()
            return Answer("CLOSE CURSOR ALL")
        await self.state.cursors.close(name)
        return Answer("CLOSE CURSOR")

    _PARTS: ClassVar[Mapping[str, Callable[[Dispatch, str, Sequence[Bound]], Awaitable[Answer]]]] = {
        "COPY": _copy,
        "DECLARE": _declare,
        "FETCH": _fetch,
        "MOVE": _move,
        "CLOSE": _close_cursor,
    }

    async def _set(self, setting: Setting, verb: str) -> Answer:
        if setting.name.lower() == "role":
            named = setting.value if setting.value and setting.value.upper() != "NONE" else None
            await self.use_role(named or self._user.principal().default_role)
        elif setting.name.upper() == "ALL":
            self.state.variables.reset()
            self.state.follow()
        elif setting.name:
            self.state.set(setting.name, setting.value)
        return Answer(verb)

    async def _product(self, text: str, values: Sequence[Bound], first: Sequence[str]) -> Answer:
        done = substituted(text, values)
        async with self._in_turn(done) as principal:
            executed = await self._runner.execute(
                done.text, principal=principal, context=self.state.context, files={}, bounded=True
            )
        self.state.context = executed.context
        is_reading = first[0] in READING
        self.state.has_changed = self.state.has_changed or not (is_reading or first[0] == "USE")
        outcome = executed.outcome
        if not isinstance(outcome, ResultSet):
            columns = tuple(map(column_of, outcome.columns))
            return Answer("SELECT", columns, live=outcome, notice=outcome.message)
        tag = "SELECT" if is_reading else " ".join(word for word in first[:_TAG_WORDS] if word.isidentifier())
        if not outcome.columns or tuple(column.name for column in outcome.columns) == _DDL:
            return Answer(tag, notice=outcome.message)
        return Answer(tag, tuple(map(column_of, outcome.columns)), outcome.rows, notice=outcome.message)

    async def _catalog(self, query: CatalogQuery) -> Answer:
        cursors = tuple(
            OpenCursor(cursor.name, cursor.statement, cursor.is_held, cursor.created)
            for cursor in self.state.cursors
        )
        environment = Environment(self._user.user, dict(self.state.variables), cursors)
        async with self._in_turn(Substituted(query.text)) as principal:
            columns, rows = await self._runner.read(
                query.text,
                partial(answered, query, environment),
                principal=principal,
                context=self.state.context,
            )
        return Answer("SELECT", columns, rows)

    @asynccontextmanager
    async def _in_turn(self, done: Substituted) -> AsyncIterator[Principal]:
        """Run the block in the turn of this connection, with its errors in PostgreSQL's terms."""
        principal = self._user.principal()
        start, state = time.perf_counter(), SqlState.INTERNAL_ERROR.value
        try:
            async with self._turns.turn(self._turn):
                yield principal
            state = SqlState.SUCCESS.value
        except NoTurnError:
            self._metrics.turned_away()
            raise PostgresError("53000", "too many statements are running; try again soon") from None
        except HeadraceError as error:
            state = error.state.value
            if error.domain is ErrorDomain.INTERNAL:
                log.exception("statement_failed", sqlstate=state)
            response = converted(error)
            if error.span is not None:
                response.position = done.original(error.span.start) + 1
            raise response from None
        except PostgresError as error:
            state = error.state
            raise
        finally:
            self._metrics.finished(state, time.perf_counter() - start)


@contextmanager
def _moved_positions(offset: int | None) -> Iterator[None]:
    """Add `offset` to the positions of errors in the block; with None, remove them."""
    try:
        yield
    except PostgresError as error:
        if error.position is not None:
            error.position = error.position + offset if offset is not None else None
        raise
