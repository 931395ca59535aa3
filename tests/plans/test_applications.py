"""Shared and separate steps of an application's queries: the whole plan, compared with the stored one (`ACCEPT=1` writes it)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.planner.application import Part, plan_application
from headrace.planner.application_text import explain_application
from headrace.planner.physical import SparkPlan
from headrace.planner.sinks import ResultSink
from headrace.sql import parse
from headrace.sql.statements.application import Application
from tests.plans.world import sink_of

CASE = Path(__file__).parent / "applications" / "shared.sql"


def parts(text: str) -> list[Part]:
    (statement,) = parse(text)
    assert isinstance(statement, Application)
    query_parts = []
    for item in statement.statements:
        logical, sink = sink_of(item.sql())
        assert not isinstance(sink, ResultSink)
        query_parts.append(Part(logical, sink))
    return query_parts


def together(*statements: str) -> list[list[str]]:
    """The sinks of each part of the plan."""
    plan = plan_application(parts(f"BEGIN APPLICATION a {'; '.join(statements)}; END APPLICATION"))
    return [[step.id for step in part.sinks] for part in plan.parts()]


def test_a_plan_is_what_it_was() -> None:
    query_parts = parts(CASE.read_text())
    plan = plan_application(query_parts)
    _compare(CASE.with_suffix(".txt"), explain_application("flights_app", query_parts, plan, []))
    _compare(CASE.with_suffix(".json"), plan.model_dump_json(indent=1, exclude_defaults=True))
    assert SparkPlan.from_json(plan.to_json()) == plan


def test_queries_that_go_row_by_row_over_one_source_are_one_part() -> None:
    plan = plan_application(parts(CASE.read_text()))
    assert [[step.id for step in part.sinks] for part in plan.parts()] == [
        ["sink_arrivals", "sink_keyed", "sink_noted"],
        ["sink_early"],
        ["sink_totals_too"],
        ["sink_hourly"],
    ]
    shared = plan.parts()[0]
    assert [step.id for step in shared.steps if step.step in ("read_entity", "decode_rows")] == [
        "read_shared_flights",
        "rows_shared_flights",
    ]
    (decoded,) = [step for step in shared.steps if step.step == "decode_rows"]
    assert decoded.carries_key, "one of them writes the source's keys"


@pytest.mark.parametrize(
    "second",
    [
        "CREATE MATERIALIZED VIEW v AS SELECT note FROM flights WITH ('starting.position' = 'earliest')",
        "CREATE MATERIALIZED VIEW v AS SELECT note FROM arrivals",
        "CREATE MATERIALIZED VIEW v AS SELECT note FROM flights UNION ALL SELECT note FROM flights",
        "CREATE MATERIALIZED VIEW v AS SELECT f.note, p.maker FROM flights AS f JOIN planes AS p ON f.tailnum = p.tailnum",
        "CREATE MATERIALIZED VIEW v AS SELECT note, COUNT(*) AS n FROM flights GROUP BY note",
    ],
    ids=["position", "source", "union", "join", "state"],
)
def test_what_is_read_otherwise_or_keeps_state_is_a_part_of_its_own(second: str) -> None:
    assert together("CREATE MATERIALIZED VIEW w AS SELECT note FROM flights", second) == [
        ["sink_w"],
        ["sink_v"],
    ]


def test_the_ids_of_an_application_are_unique() -> None:
    names = ["shared", "flights", "shared_flights"]
    statements = [f"CREATE MATERIALIZED VIEW {name} AS SELECT note FROM flights" for name in names]
    arrivals = [
        f"CREATE MATERIALIZED VIEW of_{name} AS SELECT note FROM arrivals AS {name}" for name in names
    ]
    plan = plan_application(
        parts(f"BEGIN APPLICATION a {'; '.join([*statements, *arrivals])}; END APPLICATION")
    )
    ids = [step.id for step in plan.steps]
    assert len(ids) == len(set(ids))
    assert [len(part.sinks) for part in plan.parts()] == [3, 3]


def test_records_that_are_left_out_of_a_shared_source_are_written_once() -> None:
    letters = "FROM flights WITH ('source.deserialization.error.handling' = DEAD_LETTER, 'source.deserialization.error.log.topic' = 'bad')"
    plan = plan_application(
        parts(
            f"BEGIN APPLICATION a CREATE MATERIALIZED VIEW v AS SELECT note {letters}; "
            f"CREATE MATERIALIZED VIEW w AS SELECT carrier {letters}; END APPLICATION"
        )
    )
    assert plan.outputs == ["sink_v", "sink_w", "dead_letters_shared_flights"]
    assert [step.id for step in plan.side_outputs] == ["dead_letters_shared_flights"]
    assert plan.parts() == [plan]
    assert plan.side_outputs[0] in plan.under("sink_w")


def _compare(path: Path, text: str) -> None:
    if os.environ.get("ACCEPT"):
        path.write_text(text + "\n")
    assert path.read_text() == text + "\n"
