"""Full names of the relations in a query: its text then has the same meaning in every session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from sqlglot import exp

from headrace.analyzer.views import is_named_query, set_qualifiers
from headrace.sql.ast import Select

Path = tuple[str, ...]
PARTS = 3
"""Parts of a full name: database, schema, relation."""


def named(select: Select) -> Iterator[Path]:
    """Yield the relations that a query names, as it names them."""
    for table in _tables(select.expression):
        yield tuple(part.name for part in table.parts)


def with_full_names(select: Select, full: Callable[[Path], Path]) -> Select:
    """Return a query that names each relation by its full name, which `full` returns for a name in FROM."""
    query = select.expression.copy()
    for column in query.find_all(exp.Column):
        qualifiers = tuple(part.name for part in column.parts[:-1])
        if 1 < len(qualifiers) < PARTS:
            set_qualifiers(column, full(qualifiers))
    for table in list(_tables(query)):
        set_qualifiers(table, full(tuple(part.name for part in table.parts))[:-1])
    return replace(select, expression=query)


def _tables(query: exp.Expr) -> Iterator[exp.Table]:
    return (table for table in query.find_all(exp.Table) if not is_named_query(table))
