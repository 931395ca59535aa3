"""Properties of a Snowflake store, names and types in SQL, the statements that write, and causes of errors."""

from __future__ import annotations

import sys

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors import extras
from headrace.connectors.snowflake import tables, types, writing
from headrace.connectors.snowflake.client import identifier, literal
from headrace.connectors.snowflake.failures import of_snowflake
from headrace.connectors.snowflake.options import PROPERTIES, address, read_store
from headrace.connectors.snowflake.tables import Found, Table
from headrace.connectors.snowflake.writing import Target
from headrace.connectors.upper_case import folded, unfolded
from headrace.core.errors import ExternalError, UserError
from headrace.core.properties import PropertyReader, Scope, of_scope, stored
from headrace.core.schema import Column, Schema
from headrace.core.types import parse_type

ACCOUNT = "https://acme-shop.snowflakecomputing.com"
EC_KEY = (
    ec.generate_private_key(ec.SECP256R1())
    .private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    .decode()
)


def read(**given: str) -> dict[str, str]:
    properties = {"snowflake.username": "u"} | {
        name.replace("__", "."): value for name, value in given.items()
    }
    return read_store(PropertyReader(stored(properties), of_scope(PROPERTIES, Scope.STORE), what="a store"))


@pytest.mark.parametrize(
    ("uris", "host", "account"),
    [
        (ACCOUNT, "acme-shop.snowflakecomputing.com", "acme-shop"),
        ("xy12345.eu-central-1.snowflakecomputing.com", "xy12345.eu-central-1.snowflakecomputing.com", "xy12345.eu-central-1"),
        ("https://a.privatelink.snowflakecomputing.com:443/", "a.privatelink.snowflakecomputing.com", "a.privatelink"),
        ("https://a.cn-north-1.snowflakecomputing.cn", "a.cn-north-1.snowflakecomputing.cn", "a.cn-north-1"),
    ],
)  # fmt: skip
def test_an_address_is_that_of_an_account(uris: str, host: str, account: str) -> None:
    store = read(uris=uris, snowflake__password="p")
    assert (address(store["uris"]).host, address(store["uris"]).secure) == (host, True)
    assert store["snowflake.account_id"] == account


@pytest.mark.parametrize(
    "uris",
    [
        "https://sf.example.com",
        "https://snowflakecomputing.com.example.com",
        "https://example.com/.snowflakecomputing.com",
        "https://example.com#.snowflakecomputing.com",
        "https://u:hunter2@a.snowflakecomputing.com",
        "https://a.snowflakecomputing.com:8443",
        "https://a.snowflakecomputing.com/?account=b",
        "https://a b.snowflakecomputing.com",
        "https://.snowflakecomputing.com",
        "http://a.snowflakecomputing.com",
        "https://127.0.0.1:8080",
        "http://10.0.0.1:8080",
        "http://127.0.0.1",
    ],
)
def test_any_other_address_is_refused(uris: str) -> None:
    with pytest.raises(UserError, match="'uris'") as raised:
        read(uris=uris, snowflake__password="p", tls__disabled=str(uris.startswith("http:")))
    assert "hunter2" not in raised.value.text()


def test_plain_http_is_for_this_machine_and_must_be_explicit() -> None:
    for uris, disabled in ((ACCOUNT, "true"), ("http://127.0.0.1:1", "false")):
        with pytest.raises(UserError, match=r"tls\.disabled"):
            read(uris=uris, snowflake__password="p", tls__disabled=disabled)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, r"needs the property 'snowflake\.client\.key_file'"),
        ({"snowflake__password": "a", "snowflake__token": "b"}, r"'snowflake\.token' must be left out"),
        ({"snowflake__client__key_file": "hunter2"}, "private RSA key, found"),
        ({"snowflake__client__key_file": EC_KEY}, "private RSA key, found"),
        ({"snowflake__password": "p", "snowflake__client__key_passphrase": "x"}, "must be left out"),
        ({"snowflake__password": "p", "snowflake__token__type": "oauth"}, "must be left out"),
        ({"snowflake__password": "p", "snowflake__account_id": "a&b=c"}, "identifier of an account"),
    ],
)
def test_a_user_has_one_way_to_sign_in(given: dict[str, str], expected: str) -> None:
    with pytest.raises(UserError, match=expected) as raised:
        read(uris=ACCOUNT, **given)
    assert "hunter2" not in raised.value.text()


NAMES = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=12)


@given(NAMES)
def test_a_name_in_sql_is_one_name(name: str) -> None:
    text = identifier(name)
    inner = text[1:-1].replace('""', "")
    assert text[0] == text[-1] == '"'
    assert '"' not in inner
    assert folded(unfolded(name)) in (name, name.upper())


def test_names_fold_as_they_do_there_without_quotes() -> None:
    assert [identifier(name) for name in ("orders", "Orders", "my orders", "é", "o_1")] == [
        '"ORDERS"',
        '"Orders"',
        '"my orders"',
        '"é"',
        '"O_1"',
    ]
    assert [unfolded(name) for name in ("ORDERS", "Orders", "orders")] == ["orders", "Orders", "orders"]
    assert literal("it's \\ a \\' test") == "'it\\'s \\\\ a \\\\\\' test'"


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("NUMBER(4,0)", "SMALLINT"),
        ("NUMBER(9,0)", "INTEGER"),
        ("NUMBER(10,0)", "BIGINT"),
        ("NUMBER(19,0)", "BIGINT"),
        ("NUMBER(38,0)", "DECIMAL(38, 0)"),
        ("NUMBER(12,2)", "DECIMAL(12, 2)"),
        ("FLOAT", "DOUBLE"),
        ("VARCHAR(16777216)", "VARCHAR"),
        ("VARCHAR(134217728)", "VARCHAR"),
        ("VARCHAR(10)", "VARCHAR(10)"),
        ("BINARY(8388608)", "BYTES"),
        ("BOOLEAN", "BOOLEAN"),
        ("DATE", "DATE"),
        ("TIME(9)", "VARCHAR"),
        ("TIMESTAMP_NTZ(9)", "TIMESTAMP(9)"),
        ("TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(3)"),
        ("TIMESTAMP_TZ(9)", "TIMESTAMP_LTZ(9)"),
        ("VARIANT", "VARCHAR"),
        ("ARRAY(NUMBER(38,0))", "VARCHAR"),
        ("OBJECT(a VARCHAR, b NUMBER(3,0))", "VARCHAR"),
        ("VECTOR(FLOAT, 256)", "VARCHAR"),
    ],
)
def test_types_of_tables(theirs: str, ours: str) -> None:
    assert str(types.of_snowflake(theirs)) == ours


@pytest.mark.parametrize(
    ("ours", "theirs", "fits", "reads"),
    [
        ("BIGINT", "NUMBER(38,0)", True, True),
        ("BIGINT", "NUMBER(10,0)", False, True),
        ("INTEGER", "NUMBER(12,2)", True, False),
        ("DECIMAL(10, 2)", "NUMBER(12,2)", True, True),
        ("DECIMAL(10, 2)", "NUMBER(11,4)", False, False),
        ("DECIMAL(12, 4)", "NUMBER(12,2)", False, True),
        ("FLOAT", "FLOAT", True, True),
        ("DOUBLE", "NUMBER(12,2)", False, False),
        ("VARCHAR", "VARCHAR(3)", True, True),
        ("VARCHAR", "VARIANT", False, True),
        ("VARCHAR", "DATE", False, True),
        ("TIMESTAMP(3)", "TIMESTAMP_NTZ(9)", True, True),
        ("TIMESTAMP(3)", "TIMESTAMP_LTZ(9)", False, False),
        ("TIMESTAMP_LTZ(3)", "TIMESTAMP_TZ(9)", True, True),
        ("ARRAY<INTEGER>", "VARIANT", True, True),
        ("ARRAY<INTEGER>", "ARRAY", True, True),
        ("STRUCT<a INTEGER>", "OBJECT", False, True),
        ("MAP<VARCHAR, INTEGER>", "VARCHAR(10)", False, False),
        ("BYTES", "BINARY(8388608)", True, True),
        ("DATE", "TIMESTAMP_NTZ(9)", False, False),
    ],
)
def test_what_fits_and_what_is_read(ours: str, theirs: str, fits: bool, reads: bool) -> None:
    assert (types.fits(parse_type(ours), theirs), types.reads(parse_type(ours), theirs)) == (fits, reads)


PATH = ('sh"op', "till; DROP SCHEMA x", "orders")
COLUMNS = (
    Column("id", parse_type("BIGINT"), nullable=False),
    Column('a"b', parse_type("TIMESTAMP_LTZ(3)")),
    Column("tags", parse_type("ARRAY<VARCHAR>")),
)
TABLE = Table(
    tables.named(PATH),
    {
        "id": Found("ID", "NUMBER(19,0)", nullable=False),
        'a"b': Found('a"b', "TIMESTAMP_LTZ(3)", nullable=True),
        "tags": Found("TAGS", "VARIANT", nullable=True),
    },
    ("id",),
)


def test_the_statements_that_write() -> None:
    """Compare the whole text: the stand-in ignores COPY's file options."""
    upsert, append = Target(PATH, COLUMNS, ("id",), "q"), Target(PATH, COLUMNS)
    assert tables.create_sql(PATH, COLUMNS, ("id",)) == (
        'CREATE TABLE "sh""op"."till; DROP SCHEMA x"."ORDERS" ("ID" NUMBER(19,0) NOT NULL, "a""b" TIMESTAMP_LTZ(3), "TAGS" VARIANT, '
        'PRIMARY KEY ("ID"))'
    )
    assert writing.batch_sql(append) == (
        "CREATE OR REPLACE TEMPORARY TABLE HEADRACE_BATCH (C0 NUMBER(19,0), C1 NUMBER(19,0), C2 VARCHAR)"
    )
    assert writing.batch_sql(upsert) == (
        "CREATE OR REPLACE TEMPORARY TABLE HEADRACE_BATCH (C0 NUMBER(19,0), C1 NUMBER(19,0), C2 VARCHAR, DELETED BOOLEAN)"
    )
    assert writing.copy_sql(7) == (
        "COPY INTO HEADRACE_BATCH FROM @%HEADRACE_BATCH/7 "
        "FILE_FORMAT = (TYPE = PARQUET USE_LOGICAL_TYPE = TRUE BINARY_AS_TEXT = FALSE NULL_IF = ()) "
        "MATCH_BY_COLUMN_NAME = CASE_SENSITIVE ON_ERROR = ABORT_STATEMENT"
    )
    where = '"sh""op"."till; DROP SCHEMA x"."ORDERS"'
    assert writing.change_sql(TABLE, append) == (
        f'INSERT INTO {where} ("ID", "a""b", "TAGS") SELECT C0, TO_TIMESTAMP_LTZ(C1, 6), PARSE_JSON(C2) FROM HEADRACE_BATCH'
    )
    assert writing.change_sql(TABLE, upsert) == (
        f"MERGE INTO {where} AS KEPT USING (SELECT C0 AS C0, TO_TIMESTAMP_LTZ(C1, 6) AS C1, PARSE_JSON(C2) AS C2, DELETED "
        'FROM HEADRACE_BATCH) AS GIVEN ON KEPT."ID" = GIVEN.C0 WHEN MATCHED AND GIVEN.DELETED THEN DELETE '
        'WHEN MATCHED THEN UPDATE SET KEPT."a""b" = GIVEN.C1, KEPT."TAGS" = GIVEN.C2 '
        'WHEN NOT MATCHED AND NOT GIVEN.DELETED THEN INSERT ("ID", "a""b", "TAGS") VALUES (GIVEN.C0, GIVEN.C1, GIVEN.C2)'
    )


def test_a_table_without_a_declared_key_may_be_upserted_and_another_key_may_not() -> None:
    keyless = Table(TABLE.name, TABLE.columns)
    tables.check(keyless, PATH, Schema(COLUMNS, ("id",)), upsert=True)
    with pytest.raises(UserError, match="rows are to be updated by"):
        tables.check(TABLE, PATH, Schema(COLUMNS, ("tags",)), upsert=True)


@pytest.mark.parametrize(
    ("number", "state", "text", "kind", "sqlstate", "expected"),
    [
        (390100, "08001", "Incorrect username or password was specified.", ExternalError, "57015", "refused the store's user"),
        (390144, "08001", "JWT token is invalid. [0f]", ExternalError, "57015", "refused the user's key"),
        (606, "57P03", "No active warehouse selected in the current session.", ExternalError, "57015", "no warehouse"),
        (2003, "02000", "SQL compilation error:\nObject 'A' does not exist.", UserError, "3D007", "Object 'A' does not exist"),
        (2002, "42710", "SQL compilation error:\nObject 'A' already exists.", UserError, "42710", "table already exists"),
        (3001, "42501", "SQL access control error:\nInsufficient privileges", ExternalError, "57015", "lacks a right"),
        (904, "42000", "SQL compilation error: error line 1 at position 7\ninvalid X", UserError, "42703", "invalid X"),
        (100078, "22000", "String 'abcd' is too long and would be truncated", UserError, "22000", "too long"),
        (100072, "22000", "NULL result in a non-nullable column", UserError, "22000", "refused a value"),
        (625, "57014", "Statement 0f was aborted", ExternalError, "57015", "ended the statement"),
        (1003, "42000", "SQL compilation error:\nsyntax error", UserError, "42P16", "not what it was declared"),
        (250001, "08001", "Could not connect to Snowflake backend", ExternalError, "57015", "did not answer as Snowflake"),
        (300005, "XX000", "SQL execution internal error", ExternalError, "57015", "reported an error"),
    ],
)  # fmt: skip
def test_whose_fault_an_error_is(
    number: int, state: str, text: str, kind: type[Exception], sqlstate: str, expected: str
) -> None:
    error = of_snowflake(number, state, text, "a.snowflakecomputing.com")
    assert (type(error), error.state.value) == (kind, sqlstate)
    assert expected in error.message
    assert error.hint


def test_a_server_without_the_client_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "snowflake", None)
    monkeypatch.delitem(sys.modules, "snowflake.connector", raising=False)
    with pytest.raises(UserError, match=r"no client for Snowflake: .* snowflake is missing") as raised:
        extras.client_module("snowflake.connector", extra="snowflake", label="Snowflake")
    assert "pip install 'headrace[snowflake]'" in str(raised.value.hint)
