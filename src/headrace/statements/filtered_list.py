"""Filters LIKE, WHERE and LIMIT over the result of any LIST and any DESCRIBE of an object.

WHERE is bound, checked and translated like the WHERE of a SELECT from the list, and DuckDB evaluates it.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from sqlglot import exp

from headrace.analyzer import BindingContext, LogicalPlan, bind
from headrace.catalog.access import PUBLIC
from headrace.catalog.objects import Relation, RelationKind, StoreFacts, UserFunction
from headrace.catalog.policy import Requirement
from headrace.core.errors import InternalError, UserError
from headrace.core.names import RelationName, quote
from headrace.core.resultset import ResultColumn, ResultSet
from headrace.core.schema import Column, Schema
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT, VARCHAR
from headrace.planner.snapshot import compile_snapshot
from headrace.sql.ast import Properties, Select, TypeName, span_of
from headrace.sql.listing import FilteredList
from headrace.statements.base import HANDLERS, REQUIREMENTS, Execution, Outcome, handles
from headrace.statements.system import arrow_type

if TYPE_CHECKING:
    import pyarrow

_LIST = RelationName("list", "list", "list")
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.In, exp.Between, exp.Like)
_NUMBER = "row number"
"""The column that has the place of each row in the list."""


def _of_listing(statement: FilteredList, run: Execution) -> Iterable[Requirement]:
    return REQUIREMENTS[type(statement.listing)](statement.listing, run)


@handles(FilteredList, requires=_of_listing)
async def filtered_list(statement: FilteredList, run: Execution) -> Outcome:
    """Return the rows that match the condition. A condition on the database widens a list of the session's database to all."""
    where, listing = statement.where, statement.listing
    named = where.find_all(exp.Column) if where is not None else ()
    everywhere = any(_names(_folded(column.name), "Database") for column in named)
    outcome = await HANDLERS[type(listing)](listing, replace(run, everywhere=everywhere))
    listed = outcome.result
    if not isinstance(listed, ResultSet):
        raise InternalError(f"{type(listing).__name__} has no bounded result")
    condition = _condition(statement, listed.columns)
    if condition is not None:
        query = await asyncio.to_thread(_bound, condition, listed.columns, statement, run)
        engine, user = run.services.engine, run.principal.user
        listed = await engine.read_views(user, partial(_kept, query, listed, run))
    return Outcome(replace(listed, rows=listed.rows[: statement.limit]))


def _condition(statement: FilteredList, columns: Sequence[ResultColumn]) -> exp.Expr | None:
    """Return WHERE and LIKE as one condition over the list's columns."""
    parts: list[exp.Expr] = []
    if statement.like is not None:
        name = next((column.name for column in columns if column.name == "Name"), columns[0].name)
        text = exp.Cast(this=exp.column(name), to=TypeName(this=str(VARCHAR)))
        pattern = exp.Literal.string(statement.like.lower())
        parts.append(exp.Like(this=exp.Anonymous(this="lower", expressions=[text]), expression=pattern))
    if statement.where is not None:
        where = exp.Paren(this=statement.where.copy())
        texts = set()
        for written in where.find_all(exp.Column):
            column = _column(written, columns)
            written.this.set("this", column.name)
            if column.type == VARCHAR:
                texts.add(written)
        for comparison in list(where.find_all(*_COMPARISONS)):
            _disregard_case(comparison, texts)
        parts.append(where)
    return exp.And(this=parts[0], expression=parts[1]) if len(parts) > 1 else next(iter(parts), None)


def _disregard_case(comparison: exp.Expr, texts: Collection[exp.Expr]) -> None:
    """Ignore case where text columns are compared with texts and each other."""
    operands = list(comparison.iter_expressions())
    literals = [operand for operand in operands if isinstance(operand, exp.Literal) and operand.is_string]
    columns = [operand for operand in operands if operand in texts]
    if len(literals) + len(columns) == len(operands):
        for literal in literals:
            literal.set("this", literal.this.lower())
        for column in columns:
            column.replace(exp.Anonymous(this="lower", expressions=[column.copy()]))


def _column(written: exp.Column, columns: Sequence[ResultColumn]) -> ResultColumn:
    folded = _folded(written.name)
    match = next((column for column in columns if _names(folded, column.name)), None)
    if match is None or written.table:
        raise UserError(
            SqlState.UNDEFINED_COLUMN,
            f"this list has no column {written.sql(dialect='headrace')}",
            hint=f"The columns of the list are {', '.join(column.name for column in columns)}.",
            span=span_of(written),
        )
    return match


def _folded(name: str) -> str:
    return name.lower().replace("_", "")


def _names(folded: str, column: str) -> bool:
    """Yield the spellings of a column: clients write `created_at` for CreatedAt, and `database_name` for Database."""
    return folded in (column.lower(), f"{column.lower()}name")


@dataclass(frozen=True)
class _Lookup:
    """Name lookup of the condition: it sees the list, by any name."""

    list: Relation

    def relation(self, _name: RelationName, /) -> Relation:
        return self.list

    def relations(self, _database: str | None = None, _schema: str | None = None) -> Sequence[Relation]:
        return [self.list]

    def named_store(self, _name: str, /) -> StoreFacts | None:
        """Return None: a list belongs to no store."""
        return None

    def store(self, _name: str, /) -> StoreFacts | None:
        return None

    def functions(self, _name: str, /) -> Sequence[tuple[UserFunction, str]]:
        """Return nothing: the condition of a list calls built-in functions only."""
        return ()


def _bound(
    condition: exp.Expr, columns: Sequence[ResultColumn], statement: FilteredList, run: Execution
) -> LogicalPlan:
    """Return the places of the rows that match the condition, as a SELECT of the list. Raises UserError as binding does."""
    schema = Schema((Column(_NUMBER, BIGINT), *(Column(column.name, column.type) for column in columns)))
    moment = datetime.datetime.now(datetime.UTC)
    relation = Relation(_LIST, RelationKind.SYSTEM, schema, PUBLIC, moment, moment, id=str(_LIST))
    query = exp.select(exp.column(_NUMBER)).from_(exp.to_table(str(_LIST))).where(condition, copy=False)
    return bind(
        Select(query, Properties(), (), statement.span), BindingContext(_Lookup(relation), run.context)
    )


def _kept(query: LogicalPlan, listed: ResultSet, run: Execution) -> ResultSet:
    """Runs DuckDB, and blocks: use one of its reader threads."""
    sql = compile_snapshot(query).sql
    _, rows = run.services.engine.views.query(sql, arrow_tables={str(_LIST): _table(listed, sql)})
    return replace(listed, rows=tuple(listed.rows[number] for number in sorted(row[0] for row in rows)))


def _table(listed: ResultSet, sql: str) -> pyarrow.Table:
    """Return the columns of the query, with typed values, and the places of the rows."""
    import pyarrow

    values = {_NUMBER: pyarrow.array(range(len(listed.rows)), pyarrow.int64())}
    for place, column in enumerate(listed.columns):
        if quote(column.name) not in sql:
            continue
        texts = pyarrow.array([row[place] for row in listed.rows], pyarrow.string())
        values[column.name] = texts.cast(arrow_type(column.type))
    return pyarrow.table(values)
