"""Properties of a ClickHouse store, conversion of types both ways, and causes of errors."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors.carried_errors import carried
from headrace.connectors.clickhouse import types
from headrace.connectors.clickhouse.client import identifier, literal
from headrace.connectors.clickhouse.failures import of_clickhouse
from headrace.connectors.clickhouse.options import PROPERTIES, address, base_url, read_store
from headrace.connectors.clickhouse.spark import output
from headrace.connectors.clickhouse.types import Type
from headrace.connectors.streaming import RowSinkRequest
from headrace.core.errors import ExternalError, UserError
from headrace.core.properties import PropertyReader, Scope, of_scope, stored
from headrace.core.schema import Column
from headrace.core.sqlstate import SqlState
from headrace.core.types import DataType, parse_type

NEEDED = {"clickhouse.username": "u", "clickhouse.password": "hunter2"}
CERTIFICATE = "-----BEGIN CERTIFICATE-----"


def read(**given: str) -> dict[str, str]:
    properties = NEEDED | {name.replace("__", "."): value for name, value in given.items()}
    return read_store(PropertyReader(stored(properties), of_scope(PROPERTIES, Scope.STORE), what="a store"))


@pytest.mark.parametrize(
    ("uris", "plain", "url", "database"),
    [
        ("jdbc:clickhouse://ch.example:8443/shop", False, "https://ch.example:8443", "shop"),
        ("jdbc:clickhouse://ch.example", False, "https://ch.example:8443", "default"),
        ("clickhouse://ch.example/a%20b", True, "http://ch.example:8123", "a b"),
        ("https://ch.example:443", False, "https://ch.example:443", "default"),
        ("http://[::1]:8123/", True, "http://[::1]:8123", "default"),
    ],
)
def test_an_address_is_host_port_and_database(uris: str, plain: bool, url: str, database: str) -> None:
    store = read(uris=uris, tls__disabled=str(plain))
    assert base_url(store) == url
    assert address(store["uris"]).name == database
    assert not store["uris"].startswith("jdbc:")


@pytest.mark.parametrize(
    "uris",
    [
        "ch.example:8443",
        "ftp://ch.example",
        "jdbc:clickhouse://",
        "jdbc:clickhouse://u:hunter2@ch.example",
        "jdbc:clickhouse://ch.example/shop?ssl=false",
        "jdbc:clickhouse://ch.example/shop#x",
        "jdbc:clickhouse://ch.example/shop/x",
        "jdbc:clickhouse://a,b",
        "jdbc:clickhouse://ch.example:99999",
        "jdbc:clickhouse://ch.example:0",
        "jdbc:clickhouse://ch.exa mple",
        "jdbc:clickhouse:http://ch.example",
        "http://ch.example",
    ],
)
def test_anything_else_is_refused(uris: str) -> None:
    with pytest.raises(UserError, match="'uris'") as raised:
        read(uris=uris)
    assert "hunter2" not in raised.value.text()


def test_tls_is_not_weakened_unseen() -> None:
    with pytest.raises(UserError, match=r"tls\.verify_server_hostname"):
        read(uris="clickhouse://a", tls__verify_server_hostname="false")
    with pytest.raises(UserError, match="http://"):
        read(uris="https://a", tls__disabled="true")
    read(uris="clickhouse://a", tls__verify_server_hostname="false", tls__ca_cert_file=CERTIFICATE)
    # Where there is no TLS it says nothing: public clients give both.
    read(uris="http://a", tls__disabled="true", tls__verify_server_hostname="false")


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("Int8", "TINYINT"),
        ("UInt8", "SMALLINT"),
        ("UInt64", "DECIMAL(20, 0)"),
        ("Int128", "VARCHAR"),
        ("Nullable(Decimal(38, 10))", "DECIMAL(38, 10)"),
        ("Decimal(76, 10)", "VARCHAR"),
        ("LowCardinality(Nullable(String))", "VARCHAR"),
        ("FixedString(16)", "VARCHAR"),
        ("DateTime", "TIMESTAMP_LTZ(0)"),
        ("DateTime('UTC')", "TIMESTAMP(0)"),
        ("DateTime64(3, 'Asia/Tokyo')", "TIMESTAMP_LTZ(3)"),
        ("DateTime64(9, 'UTC')", "TIMESTAMP(9)"),
        ("Enum8('it\\'s, (a)' = 1, 'b' = -2)", "VARCHAR"),
        ("Array(Nullable(Int32))", "ARRAY<INTEGER>"),
        ("Map(LowCardinality(String), Array(Float64))", "MAP<VARCHAR, ARRAY<DOUBLE>>"),
        ("Tuple(a Int8, `b c` Array(String), `d\\`)` UInt8)", 'STRUCT<a TINYINT, "b c" ARRAY<VARCHAR>, "d`)" SMALLINT>'),
        ("Tuple(Int8, String)", "VARCHAR"),
        ("SimpleAggregateFunction(sum, Int64)", "BIGINT"),
        ("AggregateFunction(sum, Int64)", "VARCHAR"),
        ("JSON(max_dynamic_paths=8)", "VARCHAR"),
        ("Variant(Int64, String)", "VARCHAR"),
    ],
)  # fmt: skip
def test_types_of_tables(theirs: str, ours: str) -> None:
    assert str(types.of_clickhouse(Type.read(theirs))) == ours


OURS = st.recursive(
    st.sampled_from(
        [
            "BOOLEAN",
            "TINYINT",
            "SMALLINT",
            "INTEGER",
            "BIGINT",
            "FLOAT",
            "DOUBLE",
            "DATE",
            "VARCHAR",
            "TIMESTAMP",
            "TIMESTAMP_LTZ",
            "DECIMAL(12, 2)",
        ]
    ),
    lambda inner: st.one_of(
        inner.map(lambda kind: f"ARRAY<{kind}>"),
        inner.map(lambda kind: f"MAP<VARCHAR, {kind}>"),
        st.tuples(inner, inner).map(lambda pair: f'STRUCT<a {pair[0]}, "b `\\c" {pair[1]}>'),
    ),
    max_leaves=6,
)


@given(OURS.map(parse_type))
def test_every_type_of_ours_comes_back(kind: DataType) -> None:
    made = Type.read(types.to_clickhouse(kind))
    assert types.of_clickhouse(made) == kind
    assert types.fits(kind, made)


@pytest.mark.parametrize(
    ("ours", "theirs", "fits"),
    [
        ("INTEGER", "Int64", True),
        ("BIGINT", "Int32", False),
        ("BIGINT", "UInt32", True),  # guarded
        ("ARRAY<BIGINT>", "Array(UInt32)", True),  # guarded
        ("ARRAY<INTEGER>", "Array(Nullable(Int64))", True),
        ("DOUBLE", "Float32", False),
        ("FLOAT", "Float64", True),
        ("BIGINT", "Float64", False),
        ("DECIMAL(10, 2)", "Decimal(12, 4)", True),
        ("DECIMAL(10, 2)", "Decimal(10, 4)", False),
        ("DECIMAL(20, 0)", "UInt64", True),  # ClickHouse refuses what overflows
        ("DECIMAL(20, 2)", "UInt64", False),
        ("TIMESTAMP(0)", "DateTime", True),  # guarded
        ("TIMESTAMP", "DateTime", False),
        ("TIMESTAMP(3)", "DateTime64(3)", True),
        ("TIMESTAMP", "DateTime64(3)", False),
        ("VARCHAR(3)", "FixedString(3)", True),  # ClickHouse refuses what is longer
        ("VARCHAR", "UUID", True),  # ClickHouse refuses what is none
        ("VARCHAR", "Nullable(UUID)", False),  # ClickHouse would store NULL
        ("VARCHAR", "AggregateFunction(sum, Int64)", False),
        ("BYTES", "UUID", False),
        ("ARRAY<VARCHAR>", "Array(Nullable(FixedString(3)))", True),  # guarded
        ("ARRAY<TIMESTAMP(0)>", "Array(DateTime)", True),  # guarded
        ("ARRAY<DECIMAL(10, 2)>", "Array(Decimal(9, 2))", False),
        ("VARCHAR", "BFloat16", False),  # ClickHouse would round it
        ("ARRAY<VARCHAR>", "Array(BFloat16)", False),
        ("VARCHAR", "Decimal(76, 10)", False),
        ("VARCHAR", "UInt256", False),  # ClickHouse may take one out of range
        ("BYTES", "String", True),
        ("VARCHAR", "Int64", False),
        ("STRUCT<a INTEGER>", "Tuple(a Int32)", True),
        ("STRUCT<a INTEGER>", "Tuple(b Int32)", False),
        ("MAP<VARCHAR, INTEGER>", "Map(String, Int64)", True),
    ],
)
def test_what_may_be_written_into_a_column(ours: str, theirs: str, fits: bool) -> None:
    assert types.fits(parse_type(ours), Type.read(theirs)) is fits


@pytest.mark.parametrize(
    ("ours", "theirs", "refused"),
    [
        ("BIGINT", "UInt32", "v NOT BETWEEN 0 AND 4294967295"),
        ("DECIMAL(20, 0)", "UInt64", "v NOT BETWEEN 0 AND 18446744073709551615"),
        ("DATE", "Nullable(Date)", "v NOT BETWEEN DATE '1970-01-01' AND DATE '2149-06-06'"),
        ("DATE", "Date32", "v NOT BETWEEN DATE '1900-01-01' AND DATE '2299-12-31'"),
        ("VARCHAR", "FixedString(3)", None),
        ("VARCHAR", "Nullable(FixedString(3))", "octet_length(v) > 3"),  # ClickHouse would store NULL
        ("ARRAY<VARCHAR>", "Array(Nullable(String))", "v IS NULL"),  # ClickHouse would store []
        (
            "MAP<VARCHAR, INTEGER>",
            "Map(String, Nullable(Int64))",
            "(v IS NULL OR exists(map_keys(v), item0 -> item0 IS NULL))",
        ),
        ("STRUCT<a INTEGER, b INTEGER>", "Tuple(a Int32, b Nullable(Int32))", "(v IS NULL OR v.`a` IS NULL)"),
        (
            "ARRAY<ARRAY<SMALLINT>>",
            "Array(Array(Nullable(UInt8)))",
            "(v IS NULL OR exists(v, item0 -> (item0 IS NULL OR exists(item0, item1 -> item1 NOT BETWEEN 0 AND 255))))",
        ),
    ],
)
def test_what_clickhouse_would_change_without_a_word_is_refused(
    ours: str, theirs: str, refused: str | None
) -> None:
    assert types.refused_sql("v", parse_type(ours), Type.read(theirs)) == refused


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("ARRAY<VARCHAR>", "Array(Nullable(String))"),
        ("MAP<VARCHAR, INTEGER>", "Map(String, Nullable(Int32))"),
        ("STRUCT<a INTEGER>", "Tuple(a Nullable(Int32))"),
    ],
)
@pytest.mark.parametrize(("upsert", "unless_ended"), [(False, ""), (True, " AND NOT __headrace_deleted")])
def test_a_null_collection_is_refused_with_a_hint(
    ours: str, theirs: str, upsert: bool, unless_ended: str
) -> None:
    column = Column("tags", parse_type(ours))
    request = RowSinkRequest("q", ("shop", "sold"), (column,), ("id",) if upsert else (), upsert, {})
    selected = output.selected(column, Type.read(theirs), request)
    assert "`tags` IS NULL" in selected
    assert f"{unless_ended}, raise_error('" in selected
    refusal = carried(selected)
    assert isinstance(refusal, UserError)
    assert refusal.state is SqlState.NUMERIC_VALUE_OUT_OF_RANGE
    assert refusal.message.startswith("a value of the column tags does not fit")
    assert refusal.hint is not None
    assert "COALESCE" in refusal.hint


@pytest.mark.parametrize("theirs", ["Nullable(DateTime)", "DateTime64(3)", "DateTime64(9, 'UTC')"])
@pytest.mark.parametrize("around", ["{}", "Array({})", "Map(String, {})", "Tuple(a {})"])
def test_times_beyond_a_range_are_refused_on_every_level(theirs: str, around: str) -> None:
    column_type = Type.read(around.format(theirs))
    assert "NOT BETWEEN TIMESTAMP" in str(
        types.refused_sql("v", types.of_clickhouse(column_type), column_type)
    )


@given(st.text())
def test_names_and_texts_stay_what_they_are(name: str) -> None:
    for quoted, quote in ((identifier(name), "`"), (literal(name), "'")):
        assert re.fullmatch(rf"{quote}([^\\{quote}]|\\.)*{quote}", quoted, re.DOTALL)
        assert re.sub(r"\\(.)", r"\1", quoted[1:-1], flags=re.DOTALL) == name


AUTHENTICATION = "Authentication failed: password is incorrect"
GRANT = "Not enough privileges. To execute this query, it's necessary to have the grant INSERT(a) ON d.t"
NO_TABLE = "Table d.t does not exist"
NO_NULL = "Cannot convert NULL value to non-Nullable type for column i"


@pytest.mark.parametrize(
    ("code", "text", "error", "state", "message"),
    [
        (516, f"{AUTHENTICATION}. (AUTHENTICATION_FAILED) (version 1)", ExternalError, "57015",
         f"authentication: h:1 refused the store's user: {AUTHENTICATION}"),
        (497, f"{GRANT}. (ACCESS_DENIED) (version 1)", ExternalError, "57015", f"the store's user lacks a right at h:1: {GRANT}"),
        (60, f"Code: 60. DB::Exception: {NO_TABLE}. (UNKNOWN_TABLE)", UserError, "3D007", f"there is no such table at h:1: {NO_TABLE}"),
        (349, f"{NO_NULL}: read stage: ColumnData: (in file/uri /data/x): While executing File. (CANNOT_INSERT_NULL)", UserError, "22000",
         f"ClickHouse refused a value: {NO_NULL}"),
        (252, "Too many parts (300). (TOO_MANY_PARTS)", ExternalError, "57015", "no room or time for this now, or does not accept writes: "
         "Too many parts (300)"),
        (49, "Logical error. Stack trace: more", ExternalError, "57015", "ClickHouse at h:1 reported an error: Logical error"),
    ],
)  # fmt: skip
def test_errors_are_classified_by_their_cause(
    code: int, text: str, error: type, state: str, message: str
) -> None:
    failure = of_clickhouse(code, f"Code: {code}. DB::Exception: {text}", "h:1")
    assert isinstance(failure, error)
    assert failure.state.value == state
    assert failure.message.endswith(f"{message} (ClickHouse error {code})")
    assert failure.hint
