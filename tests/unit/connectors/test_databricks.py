"""Properties of a Databricks store, conversion of types both ways, sent values, and causes of errors."""

from __future__ import annotations

import pytest

from headrace.connectors.databricks import tables, types
from headrace.connectors.databricks.failures import of_statement
from headrace.connectors.databricks.options import PROPERTIES, read_store, sink_options, within_bucket
from headrace.connectors.databricks.spark.output import statement
from headrace.connectors.streaming import RowSinkRequest
from headrace.core.errors import ExternalError, UserError
from headrace.core.properties import PropertyReader, Scope, of_scope, stored
from headrace.core.schema import Column, Schema
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT, VARCHAR, parse_type

NEEDED = {
    "uris": "https://x.cloud.databricks.com",
    "databricks.warehouse_id": "4a3b",
    "databricks.app_token": "dapi1",
    "databricks.cloud.s3.bucket": "lake",
    "databricks.cloud.region": "AWS us-west-2",
    "aws.access_key_id": "AKIA",
    "aws.secret_access_key": "s",
}
NOT_FOUND = (UserError, SqlState.ENTITY_NOT_FOUND)
DATA = (UserError, SqlState.DATA_EXCEPTION)
AWAY = (ExternalError, SqlState.REMOTE_UNAVAILABLE)
CLIENT = {"databricks.oauth.client_id": "c", "databricks.oauth.client_secret": "s"}


def store(**given: str | None) -> dict[str, str]:
    texts = {name: text for name, text in {**NEEDED, **given}.items() if text is not None}
    return read_store(PropertyReader(stored(texts), of_scope(PROPERTIES, Scope.STORE), what="a store"))


def test_what_a_store_keeps() -> None:
    assert store()["databricks.cloud.region"] == "us-west-2"
    assert store()["databricks.warehouse_port"] == "443"
    assert store(**{"databricks.cloud.region": "AWS_US_EAST_1"})["databricks.cloud.region"] == "us-east-1"
    assert "databricks.app_token" not in store(**{"databricks.app_token": None}, **CLIENT)


@pytest.mark.parametrize(
    ("given", "state"),
    [
        ({"uris": "https://x.cloud.databricks.com/path"}, SqlState.INVALID_PARAMETER),
        ({"uris": "https://x.cloud.databricks.com:443"}, SqlState.INVALID_PARAMETER),
        ({"uris": "https://u:p@x.cloud.databricks.com"}, SqlState.INVALID_PARAMETER),
        ({"uris": "https://x y"}, SqlState.INVALID_PARAMETER),
        ({"uris": "http://x.cloud.databricks.com"}, SqlState.INVALID_PARAMETER),
        ({"uris": "file:///etc/passwd"}, SqlState.INVALID_PARAMETER),
        ({"databricks.warehouse_id": "../../x"}, SqlState.INVALID_PARAMETER),
        ({"databricks.warehouse_id": "a?o=1"}, SqlState.INVALID_PARAMETER),
        ({"databricks.app_token": "a\r\nHost: b"}, SqlState.INVALID_PARAMETER),
        ({"databricks.cloud.s3.bucket": "a/b"}, SqlState.INVALID_PARAMETER),
        ({"databricks.cloud.region": "us-west-2.evil.example"}, SqlState.INVALID_PARAMETER),
        ({"databricks.cloud.s3.endpoint": "http://h/x?y"}, SqlState.INVALID_PARAMETER),
        (CLIENT, SqlState.INVALID_PARAMETER),
        ({"databricks.app_token": None}, SqlState.MISSING_PARAMETER),
        ({"databricks.oauth.client_id": "c", "databricks.app_token": None}, SqlState.MISSING_PARAMETER),
        ({"aws.access_key_id": None, "aws.secret_access_key": None}, SqlState.MISSING_PARAMETER),
        ({"databricks.warehouse_id": None}, SqlState.MISSING_PARAMETER),
    ],
)
def test_what_a_store_does_not_take(given: dict[str, str | None], state: SqlState) -> None:
    with pytest.raises(UserError) as caught:
        store(**given)
    assert caught.value.state == state
    assert "u:p" not in caught.value.text()


@pytest.mark.parametrize(
    "location",
    [
        "lake/x",
        "s3://",
        "s3a://lake/x",
        "file:///x",
        "s3://lake/../x",
        "s3://lake/a'b",
        "s3://lake/a`b",
        "s3://lake/a\\b",
        "s3://lake/a\nb",
    ],
)
def test_a_location_is_a_folder_of_a_bucket(location: str) -> None:
    given = stored({"table.data.file.location": location})
    with pytest.raises(UserError, match="expected s3://bucket/folder/"):
        sink_options(PropertyReader(given, of_scope(PROPERTIES, Scope.SINK), what="a table"))


def test_a_location_is_within_the_bucket() -> None:
    assert within_bucket(store(), "s3://lake/x") == "s3://lake/x"
    for other in ("s3://lake2/x", "s3://other/lake/x"):
        with pytest.raises(UserError, match="is not in the store's bucket lake"):
            within_bucket(store(), other)


@pytest.mark.parametrize(
    ("ours", "there"),
    [
        *((name, name) for name in ("BOOLEAN", "TINYINT", "SMALLINT", "BIGINT", "FLOAT", "DOUBLE", "DATE")),
        ("INTEGER", "INT"),
        ("BYTES", "BINARY"),
        ("VARCHAR", "STRING"),
        ("DECIMAL(12, 2)", "DECIMAL(12, 2)"),
        ("TIMESTAMP", "TIMESTAMP_NTZ"),
        ("TIMESTAMP_LTZ", "TIMESTAMP"),
        ("ARRAY<MAP<VARCHAR, TIMESTAMP>>", "ARRAY<MAP<STRING, TIMESTAMP_NTZ>>"),
        (
            "STRUCT<a INTEGER, b ARRAY<STRUCT<c DECIMAL(3, 1), d DATE>>>",
            "STRUCT<`a`: INT, `b`: ARRAY<STRUCT<`c`: DECIMAL(3, 1), `d`: DATE>>>",
        ),
    ],
)
def test_types_go_both_ways(ours: str, there: str) -> None:
    kind = parse_type(ours)
    assert types.to_delta(kind) == there
    assert types.of_delta(there.lower().replace(", ", ",").replace(": ", ":")) == kind
    assert types.fits(kind, kind)
    assert types.reads(kind, kind)


@pytest.mark.parametrize(
    ("there", "foreign"),
    [
        ("variant", "variant"),
        ("array<variant>", "variant"),
        ("map<string,interval day to second>", "interval day to second"),
        ("struct<a:int,`b c`:array<struct<d:void>>>", "void"),
        ("struct<a:int,`b c`:array<struct<d:varchar(3),e:decimal(9,2)>>>", None),
        ("string collate UTF8_LCASE", None),
    ],
)
def test_what_has_no_counterpart_is_read_as_text_and_not_written(there: str, foreign: str | None) -> None:
    assert types.foreign(there) == foreign
    table = tables.Table(
        "t", {"a": types.of_delta(there)}, {"Provider": "delta"}, {"a": foreign} if foreign else {}
    )
    schema = Schema((Column("a", types.of_delta(there)),))
    tables.check_readable(table, ("t",), schema)
    if foreign is None:
        tables.check(table, ("t",), schema, None)
    else:
        with pytest.raises(UserError, match=f"is {foreign.upper()}, which is read as text and not written"):
            tables.check(table, ("t",), schema, None)


@pytest.mark.parametrize(
    ("there", "ours"),
    [
        ("variant", "VARCHAR"),
        ("interval day to second", "VARCHAR"),
        ("string collate UTF8_LCASE", "VARCHAR"),
        ("struct<a:int,... 30 more fields>", "VARCHAR"),
        ("struct<>", "VARCHAR"),
        ("struct<`a,b``:>`:int>", 'STRUCT<"a,b`:>" INTEGER>'),
    ],
)
def test_what_is_there_besides(there: str, ours: str) -> None:
    assert types.of_delta(there) == parse_type(ours)


@pytest.mark.parametrize(
    ("given", "column", "fits"),
    [
        ("INTEGER", "BIGINT", True),
        ("BIGINT", "INTEGER", False),
        ("FLOAT", "DOUBLE", True),
        ("DECIMAL(10, 2)", "DECIMAL(12, 4)", True),
        ("DECIMAL(10, 2)", "DECIMAL(10, 4)", False),
        ("TIMESTAMP", "TIMESTAMP_LTZ", False),
        ("ARRAY<INTEGER>", "ARRAY<BIGINT>", True),
        ("STRUCT<a INTEGER>", "STRUCT<b INTEGER>", False),
        ("VARCHAR", "BYTES", False),
    ],
)
def test_what_fits_into_a_column(given: str, column: str, fits: bool) -> None:
    assert types.fits(parse_type(given), parse_type(column)) is fits


def test_what_is_sent() -> None:
    columns = (Column("id", BIGINT), Column("a`; DROP TABLE x --", VARCHAR))
    request = RowSinkRequest("q", ("c", "s", "t"), columns, ("id",), True, {})
    append = RowSinkRequest("q", ("c", "s", "t"), columns, (), False, {})
    folder, names = "s3://lake/headrace/q/1/", "(`id`, `a``; DROP TABLE x --`)"
    assert statement(append, "`t`", folder, known=True) == (
        f"INSERT INTO `t` {names} SELECT c0, c1 FROM parquet.`{folder}`"
    )
    assert statement(append, "`t`", folder, known=False) == (
        f"COPY INTO `t` {names} FROM (SELECT c0, c1 FROM '{folder}') FILEFORMAT = PARQUET"
    )
    merge = (
        f"MERGE INTO `t` AS t USING (SELECT * FROM parquet.`{folder}`) AS s ON t.`id` = s.c0 "
        "WHEN MATCHED AND s.__headrace_deleted THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET t.`id` = s.c0, t.`a``; DROP TABLE x --` = s.c1 "
        f"WHEN NOT MATCHED AND NOT s.__headrace_deleted THEN INSERT {names} VALUES (s.c0, s.c1)"
    )
    assert (
        statement(request, "`t`", folder, known=True)
        == statement(request, "`t`", folder, known=False)
        == merge
    )


@pytest.mark.parametrize(
    ("text", "error", "state", "message"),
    [
        (
            "[TABLE_OR_VIEW_NOT_FOUND] The table `a` cannot be found. Verify. SQLSTATE: 42P01; line 1",
            *NOT_FOUND,
            "no such table",
        ),
        (
            "Error running query: [SCHEMA_NOT_FOUND] x.E: [SCHEMA_NOT_FOUND] The schema `x` cannot be found.\nIf\n\tat y",
            *NOT_FOUND,
            "no such catalog or schema: The schema `x` cannot be found$",
        ),
        (
            "[DELTA_NOT_NULL_CONSTRAINT_VIOLATED] NOT NULL constraint violated for column: id.",
            *DATA,
            "refused a value: NOT NULL",
        ),
        (
            "[INSUFFICIENT_PERMISSIONS] Insufficient privileges: User does not have USE SCHEMA",
            *AWAY,
            "permission: ",
        ),
        ("[PATH_NOT_FOUND] Path does not exist: s3://lake/x", *AWAY, "bucket: "),
        ("[DELTA_CONCURRENT_APPEND] Files were added", *AWAY, "another writer"),
        ("[NEW_THING] It is new", *AWAY, "reported NEW_THING: It is new"),
        (
            "java.lang.IllegalStateException: x\n\tat org",
            *AWAY,
            "reported an error: java.lang.IllegalStateException: x$",
        ),
    ],
)
def test_whose_fault_an_error_is(text: str, error: type[Exception], state: SqlState, message: str) -> None:
    failure = of_statement(text)
    assert isinstance(failure, error)
    assert failure.state == state
    assert failure.hint
    assert pytest.RaisesExc(error, match=message).matches(failure), failure.message
