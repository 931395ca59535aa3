"""LIKE, WHERE and LIMIT, over the result of any LIST and any DESCRIBE of an object."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from headrace.catalog.policy import Requirement
from headrace.core.errors import InternalError, UserError
from headrace.core.names import Identifier
from headrace.core.resultset import Cell, ResultColumn, ResultSet
from headrace.core.sqlstate import SqlState
from headrace.sql.listing import Condition, FilteredList
from headrace.statements.base import HANDLERS, REQUIREMENTS, Execution, Outcome, handles


def _of_listing(statement: FilteredList, run: Execution) -> Iterable[Requirement]:
    return REQUIREMENTS[type(statement.listing)](statement.listing, run)


@handles(FilteredList, requires=_of_listing)
async def filtered_list(statement: FilteredList, run: Execution) -> Outcome:
    """The rows that fulfil every condition, the first of them. A condition on the database widens a list of the session's database to
    all of them."""
    names = [_folded(condition.column.name) for condition in statement.conditions]
    everywhere = any(_names(name, "Database") for name in names)
    listing = statement.listing
    outcome = await HANDLERS[type(listing)](listing, replace(run, everywhere=everywhere))
    rows = outcome.result
    if not isinstance(rows, ResultSet):
        raise InternalError(f"{type(listing).__name__} has no bounded result")
    conditions = [*_on_names(statement, rows.columns), *statement.conditions]
    tests = [(_index(item.column, rows.columns), _pattern(item), item) for item in conditions]
    kept = tuple(
        row for row in rows.rows if all(_holds(row[index], pattern, item) for index, pattern, item in tests)
    )
    return Outcome(replace(rows, rows=kept[: statement.limit]))


def _on_names(statement: FilteredList, columns: Sequence[ResultColumn]) -> list[Condition]:
    """LIKE without a column: of the names, or of what comes first where there are none."""
    if statement.like is None:
        return []
    titles = [column.name for column in columns]
    return [Condition(Identifier("Name" if "Name" in titles else titles[0]), "LIKE", statement.like)]


def _index(name: Identifier, columns: Sequence[ResultColumn]) -> int:
    folded = _folded(name.name)
    found = next((index for index, column in enumerate(columns) if _names(folded, column.name)), None)
    if found is None:
        raise UserError(
            SqlState.UNDEFINED_COLUMN,
            f"this list has no column {name}",
            hint=f"Its columns are {', '.join(column.name for column in columns)}.",
            span=name.span,
        )
    return found


def _folded(name: str) -> str:
    return name.lower().replace("_", "")


def _names(folded: str, column: str) -> bool:
    """Clients write `created_at` for CreatedAt, and `database_name` for Database."""
    return folded in (column.lower(), f"{column.lower()}name")


def _pattern(condition: Condition) -> re.Pattern[str]:
    if not condition.operator.endswith("LIKE"):
        return re.compile(re.escape(condition.value), re.IGNORECASE)
    first, *others = [
        "".join("." if char == "_" else re.escape(char) for char in part)
        for part in condition.value.split("%")
    ]
    if others:
        # Each part where it is found first, for good: a pattern of many % would take for ever to try all places.
        first += "".join(f"(?>.*?{part})" for part in others[:-1]) + f".*{others[-1]}"
    return re.compile(first, re.IGNORECASE | re.DOTALL)


def _holds(cell: Cell, pattern: re.Pattern[str], condition: Condition) -> bool:
    if cell is None:
        return False
    return (pattern.fullmatch(cell) is not None) == (condition.operator in ("=", "LIKE"))
