"""Values inside lists, maps and structs, which table stores would change without an error."""

from __future__ import annotations

import pytest

from headrace.connectors import table_fit
from headrace.connectors.carried_errors import carried
from headrace.connectors.databricks import types as databricks
from headrace.connectors.oracle import tables as oracle
from headrace.connectors.oracle.spark import output
from headrace.connectors.postgresql.spark import writing as postgresql
from headrace.connectors.snowflake import tables as snowflake
from headrace.connectors.snowflake.types import carried_sql
from headrace.connectors.streaming import RowSinkRequest
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


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("ARRAY<INTEGER>", None),
        ("STRUCT<a ARRAY<ARRAY<INTEGER>>>", None),  # JSON has them
        ("ARRAY<ARRAY<INTEGER>>", "exists(v, item0 -> size(item0) = 0)"),
        (
            "ARRAY<ARRAY<ARRAY<INTEGER>>>",
            "exists(v, item0 -> (size(item0) = 0 OR exists(item0, item1 -> size(item1) = 0)))",
        ),
    ],
)
def test_empty_arrays_that_postgresql_would_drop_are_refused(text: str, refused: str | None) -> None:
    assert postgresql.refused_sql("v", parse_type(text)) == refused


@pytest.mark.parametrize(("upsert", "unless_ended"), [(False, ""), (True, " AND NOT __headrace_deleted")])
def test_an_empty_array_in_an_array_ends_the_query(upsert: bool, unless_ended: str) -> None:
    column = Column("v", parse_type("ARRAY<ARRAY<INTEGER>>"))
    request = RowSinkRequest("q", ("db", "shop", "sold"), (column,), ("id",) if upsert else (), upsert, {})
    selected = postgresql.selected(column, request)
    assert f"size(item0) = 0){unless_ended}, raise_error('" in selected
    assert str(carried(selected)).startswith("a value of the column v has an empty array in an array")
