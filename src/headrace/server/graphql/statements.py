"""Statements by GraphQL: the mutation `execute`, and the answers of statements that take longer."""

from __future__ import annotations

from dataclasses import replace

import strawberry
from strawberry.types import Info

from headrace.core.context import SessionContext
from headrace.core.errors import Diagnostic, Span
from headrace.core.resultset import Cell, ResultColumn
from headrace.core.sqlstate import SqlState
from headrace.server.graphql.errors import RefusedError, refused, too_busy
from headrace.server.graphql.reading import SESSION_ID
from headrace.server.rest.answers import Failed, Streaming, Succeeded, page_count
from headrace.server.rest.runs import StatementRun, Work
from headrace.server.turns import NoTurnError
from headrace.sql.lexer import Source

POLL_HOLD_S = 1.0
NAME_LENGTH_MAX = 1024


@strawberry.input(description="Names that statements run in; those that are not set are the connection's.")
class ContextInput:
    """Names of a session."""

    role: str | None = None
    database: str | None = None
    schema: str | None = None
    store: str | None = None
    compute_pool: str | None = None


@strawberry.type
class Context:
    """The session's names after a statement."""

    organization_id: str
    role: str | None
    database: str | None
    schema: str | None
    store: str | None
    compute_pool: str | None


@strawberry.type
class Column:
    """A column of a result."""

    name: str
    type: str
    nullable: bool


@strawberry.type
class StatementAnswer:
    """Rows of a statement, as texts of their types. Without `isFinished` the statement takes longer: ask for it again with `statement`."""

    statement_id: strawberry.ID
    is_finished: bool
    statement_ids: list[strawberry.ID]
    columns: list[Column]
    rows: list[list[str | None]]
    row_count: int
    pages: int
    message: str | None
    context: Context | None


def columns_of(columns: tuple[ResultColumn, ...]) -> list[Column]:
    """Return columns as their type."""
    return [Column(name=_clean(each.name), type=str(each.type), nullable=each.nullable) for each in columns]


def cells_of(rows: list[list[Cell]] | tuple[tuple[Cell, ...], ...]) -> list[list[str | None]]:
    """Return the cells of rows, without lone surrogates, which a text of GraphQL cannot have."""
    return [[cell if cell is None else _clean(cell) for cell in row] for row in rows]


def session_context(names: ContextInput | None, base: SessionContext) -> SessionContext:
    """Return the context of a statement: the names of the connection, replaced by those of the argument."""
    if names is None:
        return base
    for value in vars(names).values():
        if value is not None and len(value) > NAME_LENGTH_MAX:
            raise refused(SqlState.INVALID_PARAMETER, f"a name is longer than {NAME_LENGTH_MAX} characters")
    return SessionContext(
        "",
        role=names.role or base.role,
        database=names.database or base.database,
        schema=names.schema or base.schema,
        store=names.store or base.store,
        compute_pool=names.compute_pool or base.compute_pool,
    )


def submitted(info: Info, statement: str, names: ContextInput | None) -> StatementRun:
    """Start a statement in its turn. Raises RefusedError."""
    operation = info.context
    try:
        run: StatementRun = operation.runs.submit(
            Work(statement, operation.principal, session_context(names, operation.session), SESSION_ID)
        )
    except NoTurnError:
        operation.metrics.turned_away()
        raise too_busy() from None
    return run


async def execute(info: Info, statement: str, context: ContextInput | None = None) -> StatementAnswer:
    """Run the statements of a text in order, and stop at the first error."""
    return await run_text(info, statement, context)


async def run_text(info: Info, text: str, names: ContextInput | None, *, prefix: str = "") -> StatementAnswer:
    """Run a text of which the client has written what follows `prefix`, and return its answer. Raises RefusedError."""
    run = submitted(info, text, names)
    run.prefix = prefix
    return await _answer(info, run, info.context.settings.statement_timeout_ms / 1000, 0)


async def statement(info: Info, id: strawberry.ID, page: int = 0) -> StatementAnswer:
    """Return the answer of a statement of `execute`, or another page of its rows. The answer is kept for some minutes."""
    run = info.context.runs.find(str(id), info.context.principal)
    if run is None:
        raise refused(
            SqlState.INVALID_PARAMETER,
            f"the statement {str(id)[:100]!r} does not exist, or its result has expired",
        )
    return await _answer(info, run, POLL_HOLD_S, page)


async def _answer(info: Info, run: StatementRun, wait_s: float, page: int) -> StatementAnswer:
    answer, identifier = await run.answer(wait_s), run.envelope.statement_id
    if answer is None:
        return StatementAnswer(
            statement_id=strawberry.ID(identifier),
            is_finished=False,
            statement_ids=[],
            columns=[],
            rows=[],
            row_count=0,
            pages=0,
            message=None,
            context=None,
        )
    if isinstance(answer, Failed):
        raise RefusedError(_placed(answer.error, run.prefix))
    if isinstance(answer, Streaming):
        await _close(info, run, answer)
        raise refused(
            SqlState.FEATURE_NOT_SUPPORTED,
            "the result of the statement is live",
            "Use the subscription `rows`, or add LIMIT to a SELECT of a materialized view.",
        )
    if not isinstance(answer, Succeeded):
        raise too_busy()
    most = info.context.settings.result_rows_max
    pages = page_count(answer, most)
    if not 0 <= page < pages:
        raise refused(SqlState.INVALID_PARAMETER, f"expected a page from 0 to {pages - 1}, found {page}")
    run.pages = pages
    run.fetched.add(page)
    result, names = answer.result, answer.context
    return StatementAnswer(
        statement_id=strawberry.ID(identifier),
        is_finished=True,
        statement_ids=[strawberry.ID(each) for each in answer.statement_ids],
        columns=columns_of(result.columns),
        rows=cells_of(result.rows[page * most : (page + 1) * most]),
        row_count=len(result.rows),
        pages=pages,
        message=result.message,
        context=Context(
            organization_id=names.organization_id,
            role=names.role,
            database=names.database,
            schema=names.schema,
            store=names.store,
            compute_pool=names.compute_pool,
        ),
    )


def _placed(error: Diagnostic, prefix: str) -> Diagnostic:
    """Return an error with its position in what follows `prefix`; without one if it is in `prefix`."""
    span = error.span
    if not prefix or span is None:
        return error
    end = Source(prefix).span(len(prefix), len(prefix))
    if span.start < end.start:
        return replace(error, span=None)
    column = span.column - end.column + 1 if span.line == end.line else span.column
    return replace(
        error, span=Span(span.start - end.start, span.end - end.start, span.line - end.line + 1, column)
    )


async def _close(info: Info, run: StatementRun, answer: Streaming) -> None:
    """End the query of a live result that nobody will read."""
    ticket = info.context.tickets.redeem(answer.ticket.token, run.envelope.statement_id)
    info.context.runs.forget(run)
    if ticket is not None:
        await ticket.result.close()


def _clean(text: str) -> str:
    return text if text.isascii() else text.encode(errors="replace").decode()
