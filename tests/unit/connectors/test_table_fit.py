"""Values inside lists, maps and structs, which table stores would change without an error."""

from __future__ import annotations

import pytest

from headrace.connectors import table_fit
from headrace.connectors.databricks import types as databricks
from headrace.connectors.oracle import tables as oracle
from headrace.connectors.oracle.spark import output
from headrace.connectors.postgresql.spark import writing as postgresql
from headrace.connectors.snowflake import tables as snowflake
from headrace.connectors.snowflake.types import carried_sql
from headrace.core.errors import UserError
from headrace.core.schema import Column, Schema
from headrace.core.sqlstate import SqlState
from headrace.core.types import parse_type

NESTED = ("ARRAY<TIMESTAMP>", "MAP<VARCHAR, TIMESTAMP_LTZ>", "STRUCT<a ARRAY<TIMESTAMP>>")
IN_JSON = (
    "to_json(`v`, map('ignoreNullFields', 'false', 'timestampFormat', 'yyyy-MM-dd\\'T\\'HH:mm:ss.SSSSSSXXX', "
    "'timestampNTZFormat', 'yyyy-MM-dd\\'T\\'HH:mm:ss.SSSSSS'))"
)


@pytest.mark.parametrize("text", NESTED)
def test_times_in_json_keep_their_microseconds(text: str) -> None:
    kind = parse_type(text)
    assert carried_sql("v", kind) == IN_JSON
    assert output.sent_sql("v", kind) == IN_JSON
    assert databricks.sent_sql("v", kind) == IN_JSON


def test_times_in_postgresql_keep_their_microseconds() -> None:
    assert postgresql.value_sql("`v`", parse_type("MAP<VARCHAR, TIMESTAMP_LTZ>")) == IN_JSON
    assert IN_JSON.replace("`v`", "item") in postgresql.value_sql(
        "`v`", parse_type("ARRAY<STRUCT<a TIMESTAMP>>")
    )


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("MAP<DATE, INTEGER>", "MAP<DATE, INTEGER>"),
        ("MAP<TIMESTAMP, INTEGER>", "MAP<TIMESTAMP"),
        ("MAP<BYTES, INTEGER>", "MAP<BYTES, INTEGER>"),
        ("MAP<STRUCT<a INTEGER>, INTEGER>", "MAP<STRUCT"),
        ("STRUCT<a ARRAY<MAP<VARCHAR, MAP<DATE, VARCHAR>>>>", "MAP<DATE, VARCHAR>"),
    ],
)
def test_maps_whose_keys_json_would_change_are_refused(text: str, wrong: str) -> None:
    path, columns = ("db", "shop", "sold"), (Column("Of", parse_type(text)),)
    expected = rf'the column "Of" of the table db\.shop\.sold is JSON, which does not hold a {wrong}'
    with pytest.raises(UserError, match=expected) as refused:
        table_fit.check_json(path, columns)
    assert refused.value.state is SqlState.INVALID_RELATION_DEFINITION
    with pytest.raises(UserError, match=expected):
        snowflake.create_sql(path, columns, ())
    with pytest.raises(UserError, match=expected):
        snowflake.check(
            snowflake.Table("t", {"Of": snowflake.Found("Of", "VARIANT", nullable=True)}),
            path,
            Schema(columns),
            upsert=False,
        )
    with pytest.raises(UserError, match=expected):
        oracle.create_sql(path, columns, ())
    with pytest.raises(UserError, match=expected):
        oracle.check(
            oracle.Table("t", {"Of": oracle.Found("Of", "CLOB")}), path, Schema(columns), upsert=False
        )


@pytest.mark.parametrize(
    "text", ["DATE", "MAP<VARCHAR, DATE>", "MAP<BIGINT, BYTES>", "ARRAY<MAP<DECIMAL(9, 2), TIMESTAMP>>"]
)
def test_json_holds_other_types(text: str) -> None:
    table_fit.check_json(("t",), (Column("v", parse_type(text)),))
