"""The same queries over tables in DuckDB, and a common form for the rows of both sides."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import duckdb

from headrace.testing.topics import Pair
from tests.properties.templates import COLUMNS, Row, Template, left_in_the_end

Bag = Counter[tuple[Any, ...]]


def expected_rows(
    templates: Sequence[Template], rows: Mapping[str, Sequence[Row]]
) -> dict[str, tuple[list[str], Bag]]:
    """Return columns and rows of each template, computed from all rows of all relations."""
    with duckdb.connect() as database:
        for relation, columns in COLUMNS.items():
            declared = ", ".join(f"{name} {kind}" for name, kind in columns.items())
            database.execute(f"CREATE TABLE {relation} ({declared})")
            marks = ", ".join("?" * len(columns))
            kept = left_in_the_end(list(rows[relation])) if relation in ("u", "x") else rows[relation]
            values = [[row.value[name] for name in columns] for row in kept if row.value is not None]
            database.executemany(f"INSERT INTO {relation} VALUES ({marks})", values)
        results = {}
        for template in templates:
            if template.rows is not None:
                names, computed = template.rows([row.value for row in rows["s"] if row.value is not None])
                results[template.name] = (names, Counter(computed))
                continue
            result = database.execute(template.batch)
            names = [column[0] for column in result.description or []]
            results[template.name] = (names, Counter(_plain(row) for row in result.fetchall()))
        return results


def result_rows(
    template: Template, names: Sequence[str], records: Iterable[Pair], late: Sequence[str | None]
) -> Bag:
    """Return the rows of a template's records and late rows: all rows of a stream; of a changelog the last of each key, unless it is a
    deletion."""
    if template.changelog:
        last: dict[str | None, str | None] = dict(records)
        values = [value for value in last.values() if value is not None]
    else:
        values = [value or "{}" for _, value in records]
    if template.streaming:
        return _together(template.streaming, values, late)
    return Counter(tuple(json.loads(value).get(name) for name in names) for value in values)


def _together(query: str, results: Sequence[str], late: Sequence[str | None]) -> Bag:
    with duckdb.connect() as database:
        database.execute("CREATE TABLE result (row JSON)")
        database.execute("INSERT INTO result SELECT unnest(?)", [results])
        columns = COLUMNS["s"]
        read = ", ".join(f"(row->>'{name}')::{kind} AS {name}" for name, kind in columns.items())
        database.execute(f"CREATE TABLE late AS SELECT {read} FROM (SELECT unnest(?)::JSON AS row)", [late])
        return Counter(_plain(row) for row in database.execute(query).fetchall())


def difference(expected: Bag, actual: Bag, *, repeats: bool) -> str:
    """Return missing and superfluous rows as text; empty when they agree. With `repeats`, a row may be repeated."""
    missing = expected - actual
    surplus = actual - expected
    if repeats:
        missing = Counter({row: 1 for row in missing if row not in actual})
        surplus = Counter({row: count for row, count in surplus.items() if row not in expected})
    if not missing and not surplus:
        return ""
    return f"missing {_some(missing)}; too much {_some(surplus)}"


def _some(rows: Bag) -> str:
    first = ", ".join(f"{row} x{count}" for row, count in sorted(rows.items(), key=str)[:4])
    return f"{rows.total()} rows [{first}{', …' if len(rows) > 4 else ''}]"


def _plain(row: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(
        value.isoformat(sep=" ", timespec="milliseconds") if isinstance(value, datetime) else value
        for value in row
    )
