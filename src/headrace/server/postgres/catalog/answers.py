"""Answers to queries of PostgreSQL's catalog, by the workers that evaluate queries of views (ADR 45)."""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog

from headrace.core.errors import InternalError, UserError
from headrace.core.sqlstate import SqlState
from headrace.server.postgres import types
from headrace.server.postgres.catalog.rows import OpenCursor, Snapshot, rows_of
from headrace.server.postgres.catalog.translation import translated
from headrace.server.postgres.parameters import Bound
from headrace.server.postgres.types import KINDS, Cell, Column
from headrace.statements.base import Execution

log = structlog.get_logger()

_OIDS = {
    "BOOLEAN": types.BOOL,
    "TINYINT": types.INT2,
    "SMALLINT": types.INT2,
    "INTEGER": types.INT4,
    "BIGINT": types.INT8,
    "HUGEINT": types.INT8,
    "UINTEGER": types.OID,
    "FLOAT": types.FLOAT4,
    "DOUBLE": types.FLOAT8,
    "DATE": types.DATES,
    "TIMESTAMP": types.TIMESTAMP,
}
"""OIDs of DuckDB's types; all others are sent as text."""


@dataclass(frozen=True)
class CatalogQuery:
    """A query of the catalog and the values of its parameters. With `is_described`, only its columns are needed."""

    text: str
    values: tuple[Bound, ...] = field(repr=False)
    is_described: bool = False


@dataclass(frozen=True)
class Environment:
    """User, settings and cursors of the connection that asks."""

    user: str
    variables: Mapping[str, str]
    cursors: tuple[OpenCursor, ...] = ()


def answered(
    query: CatalogQuery, environment: Environment, run: Execution
) -> tuple[tuple[Column, ...], list[list[Cell]]]:
    """Return columns and rows of a query, with the objects that the active role may see. Raises UserError."""
    objects = Snapshot(run, environment.user, environment.variables, environment.cursors)
    translation = translated(query.text, query.values, objects)
    with run.catalog.transaction():
        tables = {shape.table: shape.filled(rows_of(shape, objects)) for shape in translation.reads}
    sql = f"SELECT * FROM ({translation.sql}) LIMIT 0" if query.is_described else translation.sql  # noqa: S608 - translated
    try:
        described, rows = run.services.engine.views.query(sql, arrow_tables=tables)
    except InternalError as error:
        # DuckDB's sentence without the query's text.
        reason = error.message.partition("\n")[0][:300]
        log.warning("postgres_catalog_query_failed", reason=reason)
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "this query of PostgreSQL's catalog is not supported",
            hint="The system relations in deltastream.sys contain the objects of Headrace.",
        ) from error
    columns = tuple(Column(name, _oid(kind)) for name, kind in described)
    return columns, [[_cell(value) for value in row] for row in rows]


def _oid(kind: str) -> int:
    if kind.endswith("[]"):
        return KINDS[_oid(kind.removesuffix("[]"))].array
    return types.NUMERIC if kind.startswith("DECIMAL") else _OIDS.get(kind, types.TEXT)


def _cell(value: object) -> Cell:
    match value:
        case None:
            return None
        case str():
            return value
        case bool():
            return "t" if value else "f"
        case list() | tuple():
            return [None if item is None else str(_cell(item)) for item in value]
        case dict():
            return json.dumps(value, default=str)
        case datetime.datetime():
            return value.isoformat(" ")
        case decimal.Decimal():
            return format(value, "f")
    return str(value)
