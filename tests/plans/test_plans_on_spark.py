"""Spark's analysis of every plan's SQL, and of a call of every function: the result types must be the declared types.

Nothing runs: the inputs are empty. The drivers' tests check results.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from harness.spark import spark_session
from headrace.analyzer.functions import CATALOGUE
from headrace.analyzer.functions.signature import Function
from headrace.core.types import parse_type
from headrace.planner import physical
from headrace.planner.spark_sql import identifier, type_name
from tests.plans.test_plans import CASES, NAMES
from tests.plans.world import planned, sink_of

pytestmark = pytest.mark.spark

HIDDEN = (
    "CAST(NULL AS TIMESTAMP) AS __headrace_rowtime, false AS __headrace_deleted, '' AS __headrace_entity, "
    "0 AS __headrace_split, 0L AS __headrace_sequence, "
    "named_struct('topic', '', 'partition', 0, 'offset', 0L, 'timestamp_type', '', 'lsn', 0L) AS __headrace_metadata, "
    "CAST(NULL AS BINARY) AS __headrace_key"
    ", CAST(NULL AS MAP<STRING, BINARY>) AS __headrace_rowheaders"
)
SIGN = "CAST(1 AS TINYINT) AS __headrace_op"
ENDED = "false AS __headrace_deleted"
ARGUMENTS = {
    "any": ["distance", "note"],
    "number": ["distance", "fare", "delay"],
    "integer": ["distance"],
    "text": ["note"],
    "boolean": ["cancelled"],
    "timestamp": ["departed"],
    "temporal": ["departed", "CAST(departed AS DATE)"],
    "bytes": ["ENCODE(note, 'UTF-8')"],
    "text or bytes": ["note"],
    "array": ["stops"],
    "map": ["tags"],
    "array or map": ["stops", "tags"],
    "ordered": ["distance", "departed"],
}
OWN_ARGUMENTS = {
    "CURRENT_WATERMARK": ["CURRENT_WATERMARK(flight_time)"],
    "ROUND": ["ROUND(delay)", "ROUND(fare, 1)"],
    "RAND": ["RAND()", "RAND(7)"],
    "TIMESTAMPADD": ["TIMESTAMPADD(DAY, 1, departed)"],
    "TIMESTAMPDIFF": ["TIMESTAMPDIFF(HOUR, departed, departed)"],
    "DATE_TRUNC": ["FLOOR(departed TO DAY)", "DATE_TRUNC('HOUR', departed)"],
    "TO_TIMESTAMP_LTZ_EPOCH": ["TO_TIMESTAMP_LTZ(distance, 3)", "TO_TIMESTAMP_LTZ(flight_time, 0)"],
    "ARRAY_CONTAINS": ["ARRAY_CONTAINS(stops, note)"],
    "ARRAY_POSITION": ["ARRAY_POSITION(stops, note)"],
    "ARRAY_REMOVE": ["ARRAY_REMOVE(stops, note)"],
    "MAP": ["MAP(note, distance)"],
    "LISTAGG": ["LISTAGG(note)", "LISTAGG(note, ';')"],
    "DATE_FORMAT": ["DATE_FORMAT(departed, 'yyyy')"],
    "JSON_VALUE": ["JSON_VALUE(note, '$.a')", "JSON_VALUE(note, '$.a' RETURNING BIGINT)"],
    "JSON_QUERY": ["JSON_QUERY(note, '$.a')", "JSON_QUERY(note, '$' RETURNING ARRAY<VARCHAR>)"],
    "ENCODE": ["ENCODE(note, 'UTF-8')"],
    "RAND_INTEGER": ["RAND_INTEGER(distance)", "RAND_INTEGER(7, distance)"],
    "ARRAY_APPEND": ["ARRAY_APPEND(stops, note)"],
    "ARRAY_PREPEND": ["ARRAY_PREPEND(stops, note)"],
    "ARRAY_AGG": ["ARRAY_AGG(note)", "ARRAY_AGG(note IGNORE NULLS)", "ARRAY_AGG(DISTINCT distance)"],
    "PERCENTILE": [
        "PERCENTILE(fare, 0.5)",
        "PERCENTILE(fare, 1, distance)",
        "PERCENTILE(delay, ARRAY[0, 1])",
    ],
    "JSON_OBJECT": ["JSON_OBJECT()", "JSON_OBJECT('a' VALUE distance ABSENT ON NULL)"],
    "JSON_OBJECTAGG": ["JSON_OBJECTAGG(note VALUE distance)"],
}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


def analysed(spark: SparkSession, plan: physical.SparkPlan) -> None:
    """Every step's output as an empty view; the last one's columns must have the declared types."""
    _announce(spark, plan)
    for step in plan.steps:
        match step:
            case physical.DecodeRows() | physical.ReadRows():
                declared = [
                    f"CAST(NULL AS {_spark(column.type)}) AS {identifier(column.name)}"
                    for column in step.columns
                ]
                key = f"CAST(NULL AS {_spark(getattr(step, 'key_type', None) or 'VARCHAR')}) AS __headrace_rowkey"
                spark.sql(f"SELECT {', '.join([*declared, key, HIDDEN])}").createOrReplaceTempView(step.id)
            case physical.AssignWatermark():
                spark.table(step.input).createOrReplaceTempView(step.id)
            case physical.SqlTransform():
                spark.sql(step.sql).createOrReplaceTempView(step.id)
            case physical.TemporalJoin():
                on = " AND ".join(
                    f"l.{a} = r.{b}" for a, b in zip(step.left_keys, step.right_keys, strict=True)
                )
                name = identifier(step.right_name)
                text = (
                    f"SELECT l.*, struct(r.*) AS {name} FROM {step.left} l LEFT JOIN {step.right} r ON {on}"
                )
                spark.sql(text).createOrReplaceTempView(step.id)
            case physical.LookupJoin():
                assert set(step.keys) <= set(spark.table(step.input).columns)
                fields = ", ".join(f"{identifier(item.name)}: {_spark(item.type)}" for item in step.columns)
                lookup = f"CAST(NULL AS ARRAY<STRUCT<{fields}>>) AS {identifier(step.name)}"
                _view(spark, step.id, step.input, ["*", lookup])
            case physical.Normalize():
                assert {step.deleted, step.sequence} - {None} <= set(spark.table(step.input).columns)
                kept = _but(spark, step.input, {step.deleted, step.sequence})
                _view(spark, step.id, step.input, [*kept, SIGN])
            case physical.Materialize():
                _view(spark, step.id, step.input, [*_but(spark, step.input, {"__headrace_op"}), ENDED])
            case physical.ChangelogAggregate():
                results = [
                    f"CAST(NULL AS {_spark(call.type)}) AS {identifier(call.name)}" for call in step.calls
                ]
                time = [name for name in ("__headrace_rowtime",) if name in spark.table(step.input).columns]
                flag = SIGN if step.output == "signed" else ENDED
                _view(spark, step.id, step.input, [*step.keys, *results, *time, flag])
            case physical.ChangelogJoin():
                _joined(spark, step, {step.left_closes, step.right_closes}, [SIGN])
            case physical.IntervalJoin():
                _joined(spark, step, set(), [])
            case physical.TopN():
                _ranked(spark, step)
            case physical.WindowExtremes():
                assert {step.value, step.window} <= set(spark.table(step.input).columns)
                _view(spark, step.id, step.input, _but(spark, step.input, {step.value}))
            case physical.MatchRecognize():
                _matched(spark, step)
            case physical.OverAggregate():
                read = {*step.partition, *(argument for call in step.calls for argument in call.arguments)}
                assert read <= set(spark.table(step.input).columns)
                results = [
                    f"CAST(NULL AS {_spark(call.type)}) AS {identifier(call.name)}" for call in step.calls
                ]
                _view(spark, step.id, step.input, [*_but(spark, step.input, {*read}), *results])
            case physical.EncodeRows() | physical.WriteView() | physical.WriteResults():
                types = {
                    field.name: field.dataType.simpleString() for field in spark.table(step.input).schema
                }
                for column in step.columns:
                    expected = spark.sql(f"SELECT CAST(NULL AS {_spark(column.type)}) AS x").schema[0]
                    assert types[column.name] == expected.dataType.simpleString(), column


def _announce(spark: SparkSession, plan: physical.SparkPlan) -> None:
    """Makes the functions of users known by name; they are never called, so they need no worker's command."""
    announce = spark._jvm.io.headrace.spark.UserFunctions.announce
    for function in plan.functions:
        announce("", function.id, function.signature, "", [], "", _spark(function.result), 1000, False)


def _but(spark: SparkSession, view: str, left_out: set[str | None]) -> list[str]:
    return [identifier(name) for name in spark.table(view).columns if name not in left_out]


def _joined(
    spark: SparkSession,
    step: physical.ChangelogJoin | physical.IntervalJoin,
    closes: set[str | None],
    flags: list[str],
) -> None:
    left = _but(spark, step.left, {"__headrace_op", "__headrace_rowtime", *step.left_keys, *closes})
    right = _but(spark, step.right, {"__headrace_op", *step.right_keys, *closes})
    right = [] if step.how in ("semi", "anti") else right
    time = [] if "`__headrace_rowtime`" in right else ["CAST(NULL AS TIMESTAMP) AS __headrace_rowtime"]
    both = f"{step.left} l CROSS JOIN {step.right} r WHERE {step.condition or 'true'}"
    columns = [*(f"l.{name}" for name in left), *(f"r.{name}" for name in right), *time, *flags]
    spark.sql(f"SELECT {', '.join(columns)} FROM {both}").createOrReplaceTempView(step.id)


def _ranked(spark: SparkSession, step: physical.TopN) -> None:
    rank = [f"1L AS {identifier(step.rank)}"] if step.rank else []
    flag = {"signed": [SIGN], "upsert": [ENDED], "insert": []}[step.output]
    for key in [*step.partition, *(order.column for order in step.order)]:
        assert key in spark.table(step.input).columns
    _view(spark, step.id, step.input, [*_but(spark, step.input, {"__headrace_op"}), *rank, *flag])


def _matched(spark: SparkSession, step: physical.MatchRecognize) -> None:
    """A view of the columns that the matches have."""
    for key in [*step.partition, *(order.column for order in step.order)]:
        assert key in spark.table(step.input).columns
    of_kind = {"number": "1L", "values": "array({})", "final_values": "array({})"}
    values = [
        of_kind.get(item.kind, "{}").format(identifier(item.column) if item.column else "'a'")
        for item in step.navigations
    ]
    names = [identifier(item.name) for item in step.navigations]
    shown = [f"{value} AS {name}" for value, name in zip(values, names, strict=True)]
    _view(spark, step.id, step.input, [*shown, step.time])
    for condition in filter(None, (variable.condition for variable in step.pattern)):
        assert (
            spark.sql(f"SELECT {condition} AS x FROM {step.id}").schema[0].dataType.simpleString()
            == "boolean"
        )


def _view(spark: SparkSession, name: str, source: str, columns: list[str]) -> None:
    spark.sql(f"SELECT {', '.join(columns)} FROM {source}").createOrReplaceTempView(name)


def _spark(kind: str) -> str:
    return type_name(parse_type(kind))


@pytest.mark.parametrize("name", NAMES)
def test_spark_accepts_a_plan(spark: SparkSession, name: str) -> None:
    text = (CASES / f"{name}.sql").read_text()
    if not sink_of(text)[0].snapshot:
        analysed(spark, planned(text))


@pytest.mark.parametrize("row", CATALOGUE.values(), ids=lambda row: row.name)
def test_spark_gives_a_function_the_declared_type(spark: SparkSession, row: Function) -> None:
    for call in OWN_ARGUMENTS.get(row.name) or _calls(row):
        analysed(spark, planned(f"SELECT {call} AS x FROM flights"))


def _calls(row: Function) -> list[str]:
    most = len(row.parameters) + row.variadic
    calls = {
        f"{row.name}({', '.join(_argument(row, index, choice) for index in range(count))})": None
        for count in range(row.required, most + 1)
        for choice in range(3)
    }
    return list(calls)


def _argument(row: Function, index: int, choice: int) -> str:
    known = ARGUMENTS[row.parameter(index).value]
    return known[min(choice, len(known) - 1)]


def test_two_queries_call_one_function_in_workers_of_their_own(spark: SparkSession) -> None:
    functions = spark._jvm.io.headrace.spark.UserFunctions
    for query in ("q 1", "q 2"):
        functions.announce(query, "one", f"f of {query}", f"code role {query}", [], "", "BIGINT", 1000, False)
    for query in ("q 1", "q 2"):
        session = spark.newSession()
        session.conf.set("headrace.functions.query", query)
        plan = session.sql("SELECT headrace_call('one', 1L) AS x")._jdf.queryExecution().analyzed().toString()
        assert f"headrace_call(f of {query}, 1)" in plan
        functions.forget(query)
        with pytest.raises(Exception, match="expected a function that was announced"):
            session.sql("SELECT headrace_call('one', 1L) AS x").collect()
