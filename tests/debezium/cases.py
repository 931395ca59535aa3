"""Tables and statements that change them, and a common form for the values of both engines."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class Column:
    """A column in PostgreSQL and as our streams have it; how to read Debezium's value of it, and ours."""

    name: str
    type: str
    ours: str
    of_debezium: Callable[[Any], Any] = lambda value: value
    of_ours: Callable[[Any], Any] = lambda value: value


COLUMNS = (
    Column("id", "int PRIMARY KEY", "INTEGER"),
    Column("small", "smallint", "SMALLINT"),
    Column("big", "bigint", "BIGINT"),
    Column("name", "text", "VARCHAR"),
    Column("code", "char(4)", "VARCHAR"),
    Column("price", "numeric(10, 2)", "DECIMAL(10, 2)", Decimal, lambda value: Decimal(str(value))),
    Column("ratio", "float8", "DOUBLE", float, float),
    Column("ok", "boolean", "BOOLEAN"),
    Column("day", "date", "DATE", lambda days: (_EPOCH + timedelta(days)).date(), date.fromisoformat),
    Column(
        "plain",
        "timestamp",
        "TIMESTAMP(6)",
        lambda micros: _EPOCH + timedelta(microseconds=micros),
        datetime.fromisoformat,
    ),
    Column(
        "at",
        "timestamptz",
        "TIMESTAMP_LTZ(6)",
        datetime.fromisoformat,
        lambda text: datetime.fromisoformat(text).astimezone(UTC),
    ),
    Column("raw", "bytea", "BYTES", base64.b64decode, base64.b64decode),
    Column("uid", "uuid", "VARCHAR"),
    Column("extra", "jsonb", "VARCHAR"),
    Column("tags", "text[]", "ARRAY<VARCHAR>"),
    Column("feeling", "mood", "VARCHAR"),
)
"""Those of the table `shop.items`. `shop.whole` has a key and a long text, and its whole old rows are in the log."""

_FULL = (
    "7, -9223372036854775808, E'a ü \"q\" \\\\ \\n', 'ab', -0.05, 1.5e300, true, '1969-12-31', '2026-01-02 03:04:05.678901', "
    "'2026-01-02 03:04:05.678901+02', '\\x00ff', '0e1b1a5e-0000-4000-8000-000000000001', '{\"b\": [1, null], \"a\": \"x\"}', "
    "'{\"a b\",NULL,\"\"}', 'glad'"
)

TABLES = (
    "CREATE SCHEMA shop",
    "CREATE TYPE mood AS ENUM ('glad', 'sad')",
    f"CREATE TABLE shop.items ({', '.join(f'{column.name} {column.type}' for column in COLUMNS)})",
    f"INSERT INTO shop.items VALUES (1, {_FULL})",
    "INSERT INTO shop.items (id) VALUES (2)",
    "CREATE TABLE shop.whole (id int PRIMARY KEY, n int, body text)",
    "ALTER TABLE shop.whole REPLICA IDENTITY FULL",
    "ALTER TABLE shop.whole ALTER COLUMN body SET STORAGE EXTERNAL",
    "INSERT INTO shop.whole VALUES (1, 0, repeat('long ', 4000))",
    "CREATE TABLE shop.apart (id int PRIMARY KEY, n int, body text)",
    "ALTER TABLE shop.apart ALTER COLUMN body SET STORAGE EXTERNAL",
    "INSERT INTO shop.apart VALUES (1, 0, repeat('long ', 4000))",
)

STATEMENTS = (
    f"INSERT INTO shop.items VALUES (3, {_FULL})",
    "UPDATE shop.items SET name = '', price = 0, tags = '{}', extra = 'null', ok = false WHERE id = 1",
    "UPDATE shop.items SET name = name WHERE id = 2",
    "UPDATE shop.items SET id = 4 WHERE id = 2",
    "BEGIN; INSERT INTO shop.items (id) VALUES (5); UPDATE shop.items SET big = 6 WHERE id = 5; DELETE FROM shop.items WHERE id = 5; "
    "COMMIT",
    "BEGIN; INSERT INTO shop.items (id) VALUES (6); ROLLBACK",
    "DELETE FROM shop.items WHERE id IN (1, 4)",
    "UPDATE shop.whole SET n = 1",
    "UPDATE shop.whole SET id = 2",
    "UPDATE shop.whole SET body = 'short'",
    "DELETE FROM shop.whole",
    "TRUNCATE shop.items",
)

# A large value that an UPDATE did not touch is not in the log.
NOT_SENT = "UPDATE shop.apart SET n = 1"


def plain(row: dict[str, Any] | None, *, ours: bool) -> dict[str, Any] | None:
    """A row with values in one form; what is NULL is left out."""
    if row is None:
        return None
    reads = {column.name: column.of_ours if ours else column.of_debezium for column in COLUMNS}
    return {name: reads.get(name, str)(value) for name, value in row.items() if value is not None}
