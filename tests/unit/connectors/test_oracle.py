"""Properties of an Oracle store, names, types and statements, values both ways, and causes of errors.

No server of Oracle's can be had: what is here word for word is what its documentation says of it. See docs/guides/oracle.md.
"""

from __future__ import annotations

import datetime
import sys
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors import extras
from headrace.connectors.oracle import admin, failures, reading, tables, types, writing
from headrace.connectors.oracle.client import identifier
from headrace.connectors.oracle.options import PROPERTIES, read_path, read_store, server
from headrace.connectors.oracle.reading import Condition, Part, Reading
from headrace.connectors.oracle.spark import output
from headrace.connectors.oracle.tables import Found, Table
from headrace.connectors.oracle.writing import Output, Target
from headrace.core.errors import ExternalError, UserError
from headrace.core.properties import PropertyReader, Scope, of_scope, stored
from headrace.core.schema import Column, Schema
from headrace.core.types import parse_type

USER = {"oracle.username": "app", "oracle.password": "hunter2"}


def read(**given: str) -> dict[str, str]:
    properties = USER | {name.replace("__", "."): value for name, value in given.items()}
    return read_store(PropertyReader(stored(properties), of_scope(PROPERTIES, Scope.STORE), what="a store"))


@pytest.mark.parametrize(
    ("uris", "more", "shown"),
    [
        ("oracle://db.example.com/shop", {}, "db.example.com:2484"),
        ("oracle://db.example.com/shop", {"tls__disabled": "true"}, "db.example.com:1521"),
        ("oracle://10.0.0.7:1522/ORCLPDB1.example.com", {}, "10.0.0.7:1522"),
        ("oracle://[::1]:1521/XE", {"tls__disabled": "true"}, "::1:1521"),
    ],
)
def test_an_address_is_host_port_and_service(uris: str, more: dict[str, str], shown: str) -> None:
    assert server(read(uris=uris, **more)) == shown


@pytest.mark.parametrize(
    "uris",
    [
        "db.example.com:1521/shop",
        "jdbc:oracle:thin:@//db.example.com:1521/shop",
        "oracle://db.example.com:1521",
        "oracle://db.example.com:1521/",
        "oracle://db.example.com:99999/shop",
        "oracle://db.example.com:0/shop",
        "oracle://app:hunter2@db.example.com/shop",
        "oracle://db.example.com/shop?wallet_location=/etc",
        "oracle://db.example.com/shop#x",
        "oracle://db.example.com/shop)(SID=x",
        "oracle://db.example.com/shop:dedicated",
        "oracle://(ADDRESS=(HOST=x))/shop",
        "oracle://a,b/shop",
        "oracle:///etc/passwd",
    ],
)
def test_any_other_address_is_refused(uris: str) -> None:
    with pytest.raises(UserError, match="'uris'") as raised:
        read(uris=uris)
    assert "hunter2" not in raised.value.text()


def test_a_relation_is_over_a_table_of_a_schema() -> None:
    def path(**given: str) -> tuple[str, ...]:
        entries = {f"oracle.{name}.name": value for name, value in given.items()}
        return read_path(
            PropertyReader(stored(entries), of_scope(PROPERTIES, Scope.RELATION), what="a table"), "orders"
        )

    assert path(schema="shop") == ("shop", "orders")
    assert path(db="PDB2", schema="shop", table="O") == ("PDB2", "shop", "O")
    with pytest.raises(UserError, match=r"'oracle\.schema\.name'"):
        path()
    with pytest.raises(UserError, match=r"'oracle\.db\.name'"):
        path(schema="shop", db="x)(SID=y")


@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters='"\0'), min_size=1, max_size=12))
def test_a_name_in_sql_is_one_name(name: str) -> None:
    text = identifier(name)
    assert text[0] == text[-1] == '"'
    assert '"' not in text[1:-1]
    assert text[1:-1] in (name, name.upper())


@pytest.mark.parametrize("name", ['a" FROM DUAL --', "", "a\0b"])
def test_a_name_that_no_quotes_can_hold_is_refused(name: str) -> None:
    with pytest.raises(UserError, match="Oracle has no name"):
        identifier(name)


@pytest.mark.parametrize(
    ("dictionary", "text", "ours"),
    [
        (("NUMBER", 4, 0, 0), "NUMBER(4,0)", "SMALLINT"),
        (("NUMBER", 9, 0, 0), "NUMBER(9,0)", "INTEGER"),
        (("NUMBER", 19, 0, 0), "NUMBER(19,0)", "BIGINT"),
        (("NUMBER", None, 0, 0), "NUMBER(38,0)", "DECIMAL(38, 0)"),
        (("NUMBER", 12, 2, 0), "NUMBER(12,2)", "DECIMAL(12, 2)"),
        (("NUMBER", 5, -2, 0), "NUMBER(5,-2)", "INTEGER"),
        (("NUMBER", 2, 5, 0), "NUMBER(2,5)", "DECIMAL(5, 5)"),
        (("NUMBER", 38, -5, 0), "NUMBER(38,-5)", "VARCHAR"),
        (("NUMBER", None, None, 0), "NUMBER", "VARCHAR"),
        (("FLOAT", 126, None, 0), "FLOAT", "DOUBLE"),
        (("BINARY_FLOAT", None, None, 0), "BINARY_FLOAT", "FLOAT"),
        (("VARCHAR2", None, None, 40), "VARCHAR2(40)", "VARCHAR(40)"),
        (("NCHAR", None, None, 1), "NCHAR(1)", "VARCHAR(1)"),
        (("CLOB", None, None, 0), "CLOB", "VARCHAR"),
        (("RAW", None, None, 0), "RAW", "BYTES"),
        (("DATE", None, None, 0), "DATE", "TIMESTAMP(0)"),
        (("TIMESTAMP(6)", None, 6, 0), "TIMESTAMP(6)", "TIMESTAMP"),
        (("TIMESTAMP(3) WITH TIME ZONE", None, 3, 0), "TIMESTAMP(3) WITH TIME ZONE", "TIMESTAMP_LTZ(3)"),
        (("TIMESTAMP(9) WITH LOCAL TIME ZONE", None, 9, 0), "TIMESTAMP(9) WITH LOCAL TIME ZONE", "TIMESTAMP_LTZ(9)"),
        (("INTERVAL DAY(2) TO SECOND(6)", 2, 6, 0), "INTERVAL DAY(2) TO SECOND(6)", "VARCHAR"),
        (("BOOLEAN", None, None, 0), "BOOLEAN", "BOOLEAN"),
        (("XMLTYPE", None, None, 0), "XMLTYPE", "VARCHAR"),
    ],
)  # fmt: skip
def test_types_of_tables(dictionary: tuple[Any, ...], text: str, ours: str) -> None:
    assert types.type_text(*dictionary) == text
    assert str(types.of_oracle(text)) == ours


@pytest.mark.parametrize(
    ("ours", "theirs", "fits", "reads"),
    [
        ("BIGINT", "NUMBER(38,0)", True, True),
        ("BIGINT", "NUMBER(10,0)", False, True),
        ("BIGINT", "NUMBER", True, True),
        ("INTEGER", "NUMBER(12,2)", True, True),
        ("INTEGER", "NUMBER(20,-2)", False, True),
        ("DECIMAL(10, 2)", "NUMBER(12,2)", True, True),
        ("DECIMAL(10, 2)", "NUMBER(11,4)", False, False),
        ("DECIMAL(12, 4)", "NUMBER(12,2)", False, True),
        ("DECIMAL(12, 4)", "NUMBER", True, True),
        ("FLOAT", "BINARY_DOUBLE", True, True),
        ("DOUBLE", "BINARY_FLOAT", False, True),
        ("DOUBLE", "NUMBER(12,2)", False, True),
        ("BOOLEAN", "NUMBER(1,0)", True, True),
        ("BOOLEAN", "BOOLEAN", True, True),
        ("BOOLEAN", "CHAR(1)", False, False),
        ("VARCHAR", "VARCHAR2(3)", True, True),
        ("VARCHAR", "NUMBER", False, True),
        ("VARCHAR", "JSON", False, True),
        ("VARCHAR", "LONG", False, False),
        ("VARCHAR", "VARCHAR2(3) GENERATED", False, False),
        ("BYTES", "RAW", True, True),
        ("BYTES", "BLOB", True, True),
        ("DATE", "DATE", True, True),
        ("DATE", "TIMESTAMP(6)", False, False),
        ("TIMESTAMP(0)", "DATE", True, True),
        ("TIMESTAMP(3)", "DATE", False, True),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", True, True),
        ("TIMESTAMP(3)", "TIMESTAMP(6) WITH TIME ZONE", False, False),
        ("TIMESTAMP_LTZ(3)", "TIMESTAMP(6) WITH LOCAL TIME ZONE", True, True),
        ("ARRAY<INTEGER>", "CLOB", True, True),
        ("STRUCT<a INTEGER>", "JSON", False, True),
        ("MAP<VARCHAR, INTEGER>", "NUMBER", False, False),
    ],
)
def test_what_fits_and_what_is_read(ours: str, theirs: str, fits: bool, reads: bool) -> None:
    assert (types.fits(parse_type(ours), theirs), types.reads(parse_type(ours), theirs)) == (fits, reads)


ALL = "BOOLEAN, TINYINT, SMALLINT, INTEGER, BIGINT, DECIMAL(10, 2), FLOAT, DOUBLE, VARCHAR, VARCHAR(9), VARCHAR(9000), BYTES, DATE, TIMESTAMP(3), TIMESTAMP_LTZ(6), ARRAY<INTEGER>"  # fmt: skip  # noqa: E501


@pytest.mark.parametrize("text", ALL.replace("10, 2", "10;2").split(", "))
def test_a_new_column_takes_and_gives_what_it_is_of(text: str) -> None:
    kind = parse_type(text.replace(";", ", "))
    # As the dictionary has it: lengths in characters, no words about them.
    there = types.to_oracle(kind).replace(" CHAR)", ")")
    assert types.fits(kind, there)
    assert types.reads(kind, there)


PATH = ("shop", "till; DROP USER x")
COLUMNS = (
    Column("id", parse_type("BIGINT"), nullable=False),
    Column("At 1", parse_type("TIMESTAMP_LTZ(3)")),
    Column("tags", parse_type("ARRAY<VARCHAR>")),
)
TABLE = Table(
    tables.named(PATH),
    {
        "id": Found("ID", "NUMBER(19,0)", nullable=False),
        "At 1": Found("At 1", "TIMESTAMP(3) WITH TIME ZONE"),
        "tags": Found("TAGS", "CLOB"),
    },
    ("id",),
)
UPSERT, APPEND = Target({}, PATH, COLUMNS, ("id",), "q"), Target({}, PATH, COLUMNS)


def test_the_statements_that_write() -> None:
    where = '"SHOP"."till; DROP USER x"'
    assert tables.create_sql(PATH, COLUMNS, ("id",)) == (
        f'CREATE TABLE {where} ("ID" NUMBER(19,0) NOT NULL, "At 1" TIMESTAMP(3) WITH TIME ZONE, "TAGS" CLOB, PRIMARY KEY ("ID"))'
    )
    assert writing.insert_sql(TABLE, APPEND) == (
        f'INSERT INTO {where} ("ID", "At 1", "TAGS") VALUES (:1, FROM_TZ(:2, \'UTC\'), :3)'
    )
    assert writing.delete_sql(TABLE, UPSERT) == f'DELETE FROM {where} WHERE "ID" = :1'
    assert writing.merge_sql(TABLE, UPSERT) == (
        f"MERGE INTO {where} KEPT USING (SELECT :1 AS C0, FROM_TZ(:2, 'UTC') AS C1, :3 AS C2 FROM DUAL) GIVEN "
        'ON (KEPT."ID" = GIVEN.C0) WHEN MATCHED THEN UPDATE SET KEPT."At 1" = GIVEN.C1, KEPT."TAGS" = GIVEN.C2 '
        'WHEN NOT MATCHED THEN INSERT ("ID", "At 1", "TAGS") VALUES (GIVEN.C0, GIVEN.C1, GIVEN.C2)'
    )
    only_key = Target({}, PATH, COLUMNS[:1], ("id",))
    assert "WHEN MATCHED" not in writing.merge_sql(TABLE, only_key)
    assert UPSERT.marks == '"SHOP"."HEADRACE_EPOCHS"'


def test_a_key_is_of_what_oracle_compares() -> None:
    with pytest.raises(UserError, match="tags would be a CLOB, which Oracle does not compare"):
        tables.create_sql(PATH, COLUMNS, ("tags",))
    keyless = Table(TABLE.name, TABLE.columns)
    tables.check(keyless, PATH, Schema(COLUMNS, ("id",)), upsert=True)
    with pytest.raises(UserError, match="tags is CLOB, which Oracle does not compare"):
        tables.check(keyless, PATH, Schema(COLUMNS, ("tags",)), upsert=True)
    with pytest.raises(UserError, match="rows are to be updated by"):
        tables.check(TABLE, PATH, Schema(COLUMNS, ("At 1",)), upsert=True)


def test_a_computed_column_is_read_and_not_written() -> None:
    table = Table(TABLE.name, {"id": Found("ID", "NUMBER(19,0)", computed=True)})
    schema = Schema(COLUMNS[:1])
    tables.check_readable(table, PATH, schema)
    with pytest.raises(UserError, match=r"id is NUMBER\(19,0\) GENERATED, which does not accept BIGINT"):
        tables.check(table, PATH, schema, upsert=False)


WHOLE = Reading(
    {"oracle.password": "hunter2"}, None, '"S"."T"', (("id", "BIGINT", '"ID"'), ("t", "VARCHAR", '"T"')), {"id": '"ID"'}
)  # fmt: skip


def test_a_table_is_read_in_ranges_of_its_key_as_of_one_moment() -> None:
    assert reading.query(WHOLE, Part(), ()) == 'SELECT "ID" AS C0, "T" AS C1 FROM "S"."T"'
    parts = reading.ranges(Decimal(1), Decimal(10), 3)
    assert parts == (Part(None, 4), Part(4, 7), Part(7, None))
    some = Reading(WHOLE.store, "pdb", '"S"."T" AS OF SCN 42', WHOLE.columns, WHOLE.comparable, '"ID"', parts)
    assert [reading.query(some, part, ()).partition("WHERE ")[2] for part in parts] == [
        '"ID" < 4',
        '"ID" >= 4 AND "ID" < 7',
        '"ID" >= 7',
    ]
    assert Reading.from_data(some.to_data()) == some
    assert "hunter2" not in repr(some)
    for statement in (
        reading.query(some, parts[1], ()),
        admin.sample_sql(TABLE, 5),
        tables.KEY.replace(":", "x"),
    ):
        sqlglot.parse_one(statement, dialect="oracle")


@given(
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**18), max_value=10**18, places=3),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=0, max_value=10**18, places=3),
    st.integers(2, 9),
)
def test_every_key_is_in_one_range(least: Decimal, width: Decimal, count: int) -> None:
    parts = reading.ranges(least, least + width, count)
    for key in (least, least + width / 2, least + width):
        holds = [
            (part.least is None or key >= part.least) and (part.end is None or key < part.end)
            for part in parts
        ]
        assert holds.count(True) == 1


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (Condition("id", "<", (5,)), '"ID" < 5'),
        (Condition("id", "=", (5, 6)), '"ID" IN (5, 6)'),
        (Condition("id", ">=", (Decimal("1E+3"),)), '"ID" >= 1000'),
        (Condition("id", "IS NULL"), '"ID" IS NULL'),
        (Condition("id", "=", ()), None),
        (Condition("id", "=", (5, "5 OR 1=1")), None),
        (Condition("id", "=", (True,)), None),
        (Condition("id", "=", (Decimal("NaN"),)), None),
        (Condition("t", "=", ("x",)), None),
        (Condition("other", "=", (1,)), None),
        (Condition("id", "=", tuple(range(1001))), None),
    ],
)
def test_only_numbers_choose_rows_there(condition: Condition, expected: str | None) -> None:
    assert reading.condition_sql(condition, WHOLE.comparable) == expected


MOMENT = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901)


@pytest.mark.parametrize(
    ("kind", "value", "arrow", "expected"),
    [
        ("SMALLINT", Decimal(-5), pa.int16(), -5),
        ("DECIMAL(5, 2)", Decimal("1.2300"), pa.decimal128(5, 2), Decimal("1.23")),
        ("DOUBLE", Decimal("0.5"), pa.float64(), 0.5),
        ("BOOLEAN", Decimal(1), pa.bool_(), True),
        ("BOOLEAN", False, pa.bool_(), False),
        ("VARCHAR", Decimal("1E+3"), pa.string(), "1000"),
        ("VARCHAR", "é", pa.string(), "é"),
        ("BYTES", b"\0\xff", pa.binary(), b"\0\xff"),
        ("DATE", MOMENT, pa.date32(), MOMENT.date()),
        ("TIMESTAMP(6)", MOMENT, pa.timestamp("us", "UTC"), MOMENT.replace(tzinfo=datetime.UTC)),
        ("ARRAY<INTEGER>", "[1]", pa.string(), "[1]"),
        ("BIGINT", None, pa.int64(), None),
    ],
)
def test_values_as_the_driver_gives_them(kind: str, value: Any, arrow: pa.DataType, expected: Any) -> None:
    assert reading.column("c", parse_type(kind), [value], arrow).to_pylist() == [expected]


@pytest.mark.parametrize(
    ("kind", "value", "arrow", "state"),
    [
        ("SMALLINT", Decimal(40000), pa.int16(), "22003"),
        ("INTEGER", Decimal("1.5"), pa.int32(), "22003"),
        ("DECIMAL(5, 2)", Decimal("1.234"), pa.decimal128(5, 2), "22003"),
        ("DECIMAL(5, 2)", Decimal(12345), pa.decimal128(5, 2), "22003"),
        ("BOOLEAN", Decimal(2), pa.bool_(), "22000"),
        ("DATE", "x", pa.date32(), "22000"),
    ],
)
def test_a_value_that_does_not_fit_is_reported(kind: str, value: Any, arrow: pa.DataType, state: str) -> None:
    with pytest.raises(UserError, match="a value of the column c") as raised:
        reading.column("c", parse_type(kind), [value], arrow)
    assert raised.value.state.value == state


def test_values_as_the_driver_takes_them() -> None:
    columns = tuple(
        Column(name, parse_type(kind))
        for name, kind in (
            ("id", "BIGINT"),
            ("ok", "BOOLEAN"),
            ("at", "TIMESTAMP_LTZ(6)"),
            ("price", "DECIMAL(5, 2)"),
        )
    )
    result = Output(Target({}, PATH, columns, ("id",)), "", "", (), (False, False, False, False))
    batch = pa.table(
        {
            "C0": pa.array([1, 2], pa.int64()),
            "C1": pa.array([True, None]),
            "C2": pa.array([MOMENT, None], pa.timestamp("us", "UTC")),
            "C3": pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)),
            "__headrace_deleted": pa.array([False, True]),
        }
    ).to_batches()[0]
    # Oracle has a NUMBER for a boolean, and the driver would leave a zone out.
    assert output.rows_of(result, batch) == ([(1, 1, MOMENT, Decimal("1.50"))], [(2,)])
    assert [types.sent_as(column.type, kind) for column, kind in zip(columns, ("NUMBER", "BOOLEAN", "DATE", "NUMBER"), strict=True)] == [
        "DB_TYPE_NUMBER", "DB_TYPE_BOOLEAN", "DB_TYPE_TIMESTAMP", "DB_TYPE_NUMBER"
    ]  # fmt: skip
    assert [types.sent_as(parse_type("VARCHAR"), kind) for kind in ("VARCHAR2(5)", "CLOB")] == [
        None,
        "DB_TYPE_CLOB",
    ]


@pytest.mark.parametrize(
    ("code", "text", "kind", "state", "expected"),
    [
        ("ORA-00942", 'ORA-00942: table or view "S"."T" does not exist', UserError, "3D007", '"S"."T" does not exist'),
        ("ORA-01918", "ORA-01918: user 'X' does not exist", UserError, "3D007", "no such schema"),
        ("ORA-00955", "ORA-00955: name is already used", UserError, "42710", "already exists"),
        ("ORA-00904", 'ORA-00904: "X": invalid identifier', UserError, "42703", "no such column"),
        ("ORA-01031", "ORA-01031: insufficient privileges", ExternalError, "57015", "lacks a right"),
        ("ORA-01950", "ORA-01950: no privileges on tablespace 'USERS'", ExternalError, "57015", "lacks a right"),
        ("ORA-00001", "ORA-00001: unique constraint (S.PK) violated", UserError, "22000", "S.PK"),
        ("ORA-01400", 'ORA-01400: cannot insert NULL into ("S"."T"."C")', UserError, "22000", "cannot insert NULL"),
        ("ORA-12899", 'ORA-12899: value too large for column "S"."T"."C" (actual: 4, maximum: 3)', UserError, "22000", "actual: 4"),
        ("ORA-01438", "ORA-01438: value larger than specified precision", UserError, "22000", "refused a value"),
        ("ORA-01843", "ORA-01843: not a valid month", UserError, "22000", "refused a value"),
        ("ORA-00972", "ORA-00972: identifier is too long", UserError, "42P16", "refused to create the table"),
        ("ORA-00932", "ORA-00932: inconsistent datatypes", UserError, "42P16", "not what it was declared"),
        ("ORA-01555", "ORA-01555: snapshot too old", ExternalError, "57015", "when the query started to read"),
        ("ORA-00060", "ORA-00060: deadlock detected", ExternalError, "57015", "ended the statement"),
        ("ORA-30006", "ORA-30006: resource busy; acquire with WAIT timeout expired", ExternalError, "57015", "ended the statement"),
        ("DPY-4024", "DPY-4024: call timeout of 300000 ms exceeded", ExternalError, "57015", "ended the statement"),
        ("ORA-01089", "ORA-01089: immediate shutdown in progress", ExternalError, "57015", "starting or stopping"),
        ("ORA-03113", "DPY-4011: closed the connection\nORA-03113: end-of-file", ExternalError, "57015", "closed the connection"),
        ("DPY-4011", "DPY-4011: the database or network closed the connection", ExternalError, "57015", "closed the connection"),
        ("DPY-3022", "DPY-3022: named time zones are not supported in thin mode", UserError, "22000", "cannot return a value"),
        ("ORA-00600", "ORA-00600: internal error code", ExternalError, "57015", "reported an error"),
    ],
)  # fmt: skip
def test_whose_fault_an_error_is(
    code: str, text: str, kind: type[Exception], state: str, expected: str
) -> None:
    error = failures.of_oracle(code, f"{text}\nHelp: https://docs.oracle.com/", "db:1521")
    assert (type(error), error.state.value) == (kind, state)
    assert expected in error.message
    assert error.hint


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        ("ORA-01017", "ORA-01017: invalid credential or not authorized", "authentication: db:1521 refused the store's user"),
        ("ORA-28000", "ORA-28000: The account is locked.", "authentication: db:1521 has locked"),
        ("ORA-01045", "ORA-01045: login denied; user X lacks CREATE SESSION privilege", "may not connect"),
        ("DPY-3015", "DPY-3015: password verifier type 0x939 is not supported", "format of Oracle 10"),
        ("DPY-6005", "DPY-6005: cannot connect to database (CONNECTION_ID=x).\nDPY-3001: Native Network Encryption", "requires a protocol"),
        ("DPY-6005", "DPY-6005: no (CONNECTION_ID=x).\nDPY-6006: The name on the server certificate does not match", "not to be trusted"),
        ("DPY-3010", "DPY-3010: connections to this database server version are not supported", "older than Oracle 12.1"),
        ("ORA-01033", "ORA-01033: ORACLE initialization or shutdown in progress", "starting or stopping"),
    ],
)  # fmt: skip
def test_why_no_session_is_opened(code: str, text: str, expected: str) -> None:
    error = failures.of_connecting(code, text, "db:1521")
    assert isinstance(error, ExternalError)
    assert expected in error.message
    assert error.hint
    assert "CONNECTION_ID" not in error.text()


def test_a_server_without_the_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "oracledb", None)
    with pytest.raises(UserError, match=r"no client for Oracle: .* oracledb is missing") as raised:
        extras.client_module("oracledb", extra="oracle", label="Oracle")
    assert "pip install 'headrace[oracle]'" in str(raised.value.hint)
