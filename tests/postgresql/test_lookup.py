"""Look-ups of a table's rows by key, as in a worker of Spark: PostgreSQL's candidates, and equality of their keys."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from harness.postgresql import PostgresServer
from headrace.connectors.postgresql import lookup
from headrace.connectors.postgresql.columns import arrow_type
from headrace.connectors.postgresql.lookup import Lookup
from headrace.connectors.streaming import LookupRequest
from headrace.core.errors import UserError
from headrace.core.schema import Column
from headrace.core.types import parse_type
from headrace.engine.driver.lookups import matching

pytestmark = pytest.mark.parametrize("postgresql", [18], indirect=True)

Store = dict[str, str]
UUID = "0e1b1a5e-0000-4000-8000-000000000001"
MOMENT = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=datetime.UTC)


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """A worker ends with its connections."""
    yield
    while lookup._open:
        lookup._open.popitem()[1].close()


def asked(store: Store, path: tuple[str, str], *key: str, **columns: str) -> Lookup:
    given = tuple(Column(name, parse_type(kind)) for name, kind in columns.items())
    return lookup.prepare(LookupRequest(path, given, key, store))


def looked_up(look: Lookup, **keys: pa.Array) -> list[list[Any]]:
    """Return for each row of `keys` the values of `n` in the rows that it matches."""
    schema = pa.schema([(column.name, arrow_type(column.type)) for column in look.columns])
    return [[row["n"] for row in rows] for rows in matching(pa.table(keys), look, schema).to_pylist()]


@pytest.mark.parametrize(
    ("column", "kind", "keys", "expected"),
    [
        ("i", "INTEGER", pa.array([1, 3_000_000_000, None, 1, 9], pa.int64()), [[1], [], [], [1], []]),
        (
            "i",
            "INTEGER",
            pa.array([decimal.Decimal("1"), decimal.Decimal("2")], pa.decimal128(12, 0)),
            [[1], [2]],
        ),
        ("p", "DECIMAL(6, 2)", pa.array([decimal.Decimal("1.50")], pa.decimal128(6, 2)), [[1, 2]]),
        ("t", "VARCHAR", pa.array(['it\'s, {"x"} \\ y', "IT", "", "a\0b", None]), [[1], [], [2], [], []]),
        ("u", "VARCHAR", pa.array([UUID, UUID.upper(), "no uuid"]), [[1], [], []]),
        ("b", "VARCHAR", pa.array(["t", "true", "f"]), [[1], [], [2]]),
        ("c", "VARCHAR", pa.array(["ab  ", "ab"]), [[1], []]),
        ("inet", "VARCHAR", pa.array(["10.0.0.1", "10.0.0.1/32"]), [[1], []]),
        ("b", "BOOLEAN", pa.array([True, False]), [[1], [2]]),
        ("d", "DATE", pa.array([datetime.date(2026, 2, 3)]), [[1]]),
        ("at", "TIMESTAMP_LTZ(3)", pa.array([MOMENT], pa.timestamp("us", "UTC")), [[1]]),
        ("plain", "TIMESTAMP(3)", pa.array([MOMENT], pa.timestamp("us", "UTC")), [[1]]),
        ("raw", "BYTES", pa.array([b"\0\xff", b""], pa.binary()), [[1], []]),
    ],
)
def test_equal_is_what_the_columns_are_read_as(
    postgresql: PostgresServer,
    store: Store,
    schema: str,
    column: str,
    kind: str,
    keys: pa.Array,
    expected: list[list[int]],
) -> None:
    postgresql.execute(
        f'CREATE TABLE "{schema}"."T" (n int, i int, p numeric, t text, u uuid, b bool, c char(4), "inet" inet, d date, at timestamptz, '
        "plain timestamp, raw bytea)",
        f"INSERT INTO \"{schema}\".\"T\" VALUES (1, 1, 1.5, 'it''s, {{\"x\"}} \\ y', '{UUID}', true, 'ab', '10.0.0.1', '2026-02-03', "
        f"'{MOMENT.isoformat()}', '2026-01-02 03:04:05.678', '\\x00ff'), (2, 2, 1.50, '', NULL, false, NULL, NULL, NULL, NULL, NULL, NULL)",
    )
    look = asked(store, (schema, "T"), column, n="INTEGER", **{column: kind})
    assert looked_up(look, **{column: keys}) == expected


def test_several_keys_go_together_and_a_lost_connection_is_opened_again(
    postgresql: PostgresServer, store: Store, schema: str
) -> None:
    postgresql.execute(
        f'CREATE TABLE "{schema}".t (n int, a bigint, b text)',
        f"INSERT INTO \"{schema}\".t VALUES (1, 1, 'x'), (2, 1, 'y'), (3, 2, 'x'), (4, 2, 'x')",
    )
    look = asked(store, (schema, "t"), "a", "b", n="INTEGER", a="BIGINT", b="VARCHAR")
    keys = {"a": pa.array([1, 2, 2, None]), "b": pa.array(["y", "x", "y", "x"])}
    assert looked_up(look, **keys) == [[2], [3, 4], [], []]
    postgresql.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'headrace' AND pid <> pg_backend_pid()",
        f'DELETE FROM "{schema}".t WHERE n = 3',
    )
    assert looked_up(look, **keys) == [[2], [4], [], []]
    with pytest.raises(UserError, match="has no column nome"):
        asked(store, (schema, "t"), "a", nome="INTEGER", a="BIGINT")
    postgresql.execute(f'DROP TABLE "{schema}".t')
    with pytest.raises(UserError, match="there is no such table"):
        looked_up(look, **keys)
