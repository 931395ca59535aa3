"""Each finding with the smallest query that has it, and healthy queries without any."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from headrace.catalog.objects import Query, QueryKind, QueryState
from headrace.core.names import RelationName
from headrace.engine.findings import CODES, Finding, Observations, Subject, findings
from headrace.engine.protocol import PoolSlots, QueryProgress, StepRows
from headrace.planner.physical import SparkPlan
from tests.plans.world import planned

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
HOUR_MS = 3_600_000
ROWS = "CREATE STREAM s AS SELECT carrier FROM flights WITH ('starting.position' = 'earliest')"
WINDOWS = (
    "CREATE CHANGELOG c AS SELECT window_start, window_end, COUNT(*) AS n FROM TUMBLE(flights, SIZE 1 HOUR) "
    "GROUP BY window_start, window_end"
)
GROUPS = "CREATE CHANGELOG c AS SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier"


def query(state: QueryState = QueryState.RUNNING, **options: Any) -> Query:
    name = RelationName("d", "s", "r")
    return Query(
        "id",
        None,
        1,
        QueryKind.INSERT_INTO,
        "INSERT …",
        "{}",
        name,
        (name,),
        "p",
        "sysadmin",
        NOW,
        NOW,
        actual_state=state,
        **options,
    )


def progress(**figures: Any) -> QueryProgress:
    return QueryProgress(
        query_id="id",
        **{"batch_id": 1, "input_rows": 10, "input_rows_per_second": 1.0, "batch_duration_ms": 1, **figures},
    )


def passed(step: str, came: int, through: int) -> StepRows:
    return StepRows(step=step, input_rows=came, output_rows=through)


def watermarked(*times: int | None, idle_ms: int = 0, idle: tuple[int, ...] = ()) -> dict[str, Any]:
    """Return what a driver describes of a source with a partition for each event time."""
    partitions = [
        {"entity": "flights", "partition": number, "maxEventTimeMs": ms, "idle": number in idle}
        for number, ms in enumerate(times)
    ]
    source = {"name": "flights", "delayMs": 0, "idleTimeoutMs": idle_ms, "partitions": partitions}
    return {"detail": {"watermark": {"active": True, "sources": [source]}}}


def findings_of(
    text: str,
    *batches: tuple[float, QueryProgress],
    now: float = 20.0,
    of: Query | None = None,
    started: float = 0.0,
    **pool: Any,
) -> list[Finding]:
    """Return the findings about a query that was started at that time and had these batches, in seconds."""
    observed, plan = Observations(started=started), planned(text)
    plan = plan.model_copy(update={"steps": [_renamed(step) for step in plan.steps]})
    for at, batch in batches:
        observed.add(batch, at)
    last = batches[-1][1] if batches else None
    return findings(
        Subject(
            of or query(),
            SparkPlan.model_validate(plan.model_dump()),
            observed,
            last,
            now,
            2**20,
            10 * 2**20,
            **pool,
        )
    )


def _renamed(step: Any) -> Any:
    return step.model_copy(update={"source": "flights"}) if step.step == "assign_watermark" else step


@pytest.mark.parametrize(
    ("text", "batches"),
    [
        (ROWS, [(10.0, progress())]),
        (ROWS, [(10.0, progress(input_rows=0)), (15.0, progress(lag={"flights": {"0": 9_999}}))]),
        (WINDOWS, [(10.0, progress(watermark_ms=5, **watermarked(5, 10)))]),
        (WINDOWS, [(10.0, progress(watermark_ms=5, **watermarked(5, None, 2 * HOUR_MS, idle=(1, 2))))]),
        (
            ROWS,
            [
                (1.0, progress(steps=[passed("WHERE a", 5, 1)])),
                (2.0, progress(steps=[passed("WHERE a", 5, 0)])),
            ],
        ),
        (GROUPS, [(0.0, progress(state_rows=2_000_000)), (19.0, progress(state_rows=2_100_000))]),
    ],
)
def test_a_healthy_query_has_none(text: str, batches: list[tuple[float, QueryProgress]]) -> None:
    assert findings_of(text, *batches) == []


@pytest.mark.parametrize(
    ("code", "text", "batches", "now", "sentence", "remedy"),
    [
        ("no_batch", ROWS, [], 31.0, "no batch has ended in the 31 s since", "PRINT ENTITY"),
        (
            "no_input",
            ROWS,
            [(5.0, progress(input_rows=0))],
            70.0,
            "no record has come from flights for 70 s",
            "PRINT ENTITY",
        ),
        (
            "no_input",
            GROUPS,
            [(5.0, progress(input_rows=0))],
            70.0,
            "and the query has read it to its end",
            "'starting.position' = 'earliest'",
        ),
        ("no_input", GROUPS, [(5.0, progress())], 70.0, "for 65 s, and the query", "PRINT ENTITY"),
        (
            "watermark_missing",
            WINDOWS,
            [(5.0, progress(**watermarked(10, None)))],
            20.0,
            "partition 1 of flights has had no record with an event time, and holds back the watermark of 2 partitions",
            "'source.idle.timeout.millis'",
        ),
        (
            "watermark_missing",
            WINDOWS,
            [(5.0, progress(**watermarked(10, None, idle_ms=9_000)))],
            20.0,
            "partition 1 of flights",
            "counts as idle after 9 s",
        ),
        (
            "watermark_behind",
            WINDOWS,
            [(5.0, progress(watermark_ms=5, **watermarked(2 * HOUR_MS, HOUR_MS)))],
            20.0,
            "waits for partition 1 of flights, which is at 1970-01-01 01:00:00, while partition 0 of flights is at 1970-01-01 02:00:00",
            "'source.idle.timeout.millis'",
        ),
        (
            "late_rows",
            WINDOWS,
            [(5.0, progress(input_rows=900, late_rows=890, watermark_ms=HOUR_MS))],
            20.0,
            "99% of the last 900 rows were behind the watermark (1970-01-01 01:00:00) and are not counted",
            "'source.allow.latency.millis'",
        ),
        (
            "bad_records",
            ROWS,
            [(5.0, progress(bad_records=3))],
            20.0,
            "3 of the last 10 records could not be read",
            "DEAD_LETTER",
        ),
        (
            "future_rows",
            ROWS,
            [(5.0, progress(future_rows=3))],
            20.0,
            "3 of the last 10 rows were skipped",
            "future.millis",
        ),
        (
            "function_failures",
            ROWS,
            [(5.0, progress(function_failures=3))],
            20.0,
            "3 of the last 10 rows had a function of a user that failed",
            "DEAD_LETTER",
        ),
        (
            "no_event_time",
            WINDOWS,
            [(5.0, progress(timeless_rows=3))],
            20.0,
            "3 of the last 10 rows have no event time",
            "NULL",
        ),
        (
            "field_case",
            ROWS,
            [(5.0, progress(detail={"fields_that_differ_in_case": {"Carrier": "carrier"}}))],
            20.0,
            "'Carrier' (column carrier)",
            "double quotes",
        ),
        (
            "all_filtered",
            ROWS,
            [(5.0, progress(steps=[passed("WHERE (n > 3)", 10, 0), passed("JOIN ON a = b", 0, 0)]))],
            20.0,
            "the condition (n > 3) has let none of 10 rows through",
            "PRINT ENTITY",
        ),
        (
            "no_partner",
            ROWS,
            [(5.0, progress(steps=[passed("WHERE (n > 3)", 10, 4), passed("JOIN ON a = b", 4, 0)]))],
            20.0,
            "the join a = b has found no pair among 4 rows",
            "Compare the keys",
        ),
        (
            "no_partner",
            ROWS,
            [(5.0, progress(steps=[passed("JOIN ON a = b", 1, 0)]))],
            20.0,
            "the join a = b has found no pair among 1 row",
            "Compare the keys",
        ),
        (
            "lag_grows",
            ROWS,
            [
                (5.0, progress(lag={"flights": {"0": 4_000, "1": 1_000}})),
                (
                    65.0,
                    progress(
                        lag={"flights": {"0": 19_000, "1": 1_000}},
                        detail={"durations_ms": {"addBatch": 9, "walCommit": 1}},
                    ),
                ),
            ],
            70.0,
            "the query is 20,000 records behind, 95% of them in partition 0 of flights, and was 5,000 behind a minute ago",
            "spent on reading, computing and writing",
        ),
        (
            "log_retained",
            ROWS,
            [(5.0, progress(backlog_bytes={"a": 5, "b": 3 * 2**20}))],
            20.0,
            "of b retains 3 MiB",
            "disk",
        ),
        (
            "state_grows",
            GROUPS,
            [(0.0, progress(state_rows=1_000_000)), (600.0, progress(state_rows=1_500_000))],
            610.0,
            "the state has 1,500,000 rows, 500,000 more than 10 minutes ago",
            "'state.ttl.millis'",
        ),
        (
            "state_near_limit",
            GROUPS,
            [(5.0, progress(state_bytes=2 * 2**20, state_file_bytes=7 * 2**20))],
            20.0,
            "the state has 9 MiB, 90% of the limit",
            "HEADRACE_QUERY_STATE_MB_MAX",
        ),
    ],
)
def test_a_finding_names_its_cause_and_a_remedy(
    code: str, text: str, batches: list[tuple[float, QueryProgress]], now: float, sentence: str, remedy: str
) -> None:
    (finding,) = findings_of(text, *batches, now=now)
    assert finding.code == code
    assert code in CODES
    assert sentence in finding.sentence
    assert remedy in finding.remedy
    expected = (
        "no_input",
        "all_filtered",
        "no_partner",
        "bad_records",
        "future_rows",
        "function_failures",
        "no_event_time",
        "field_case",
    )
    assert finding.warns == (code not in expected)


def test_a_store_whose_last_test_failed() -> None:
    problems = {"broker": "TCP: nothing accepts connections at k:9092.\nHint: Start it."}
    [away] = findings_of(ROWS, (10.0, progress()), failed_test=problems.get)
    assert (away.code, away.warns) == ("store_away", True)
    assert (
        away.sentence
        == "the last test of the store 'broker' failed: TCP: nothing accepts connections at k:9092"
    )
    assert "TEST STORE broker" in away.remedy


@pytest.mark.parametrize(
    ("state", "options", "code", "sentence"),
    [
        (
            QueryState.ERRORED,
            {"message": "division by zero"},
            "errored",
            "the query has stopped: division by zero",
        ),
        (
            QueryState.RESTARTING,
            {"message": "k is silent", "sqlstate": "57015"},
            "store_away",
            "the query is being restarted: k is silent",
        ),
        (
            QueryState.RESTARTING,
            {"message": "no", "restarts": 3},
            "restarting",
            "the query is being restarted (attempt 3): no",
        ),
        (QueryState.TERMINATED, {}, "terminated", "ended by a user"),
        (
            QueryState.STOPPED,
            {"message": "the pool is stopped"},
            "pool_stopped",
            "the query waits: the pool is stopped",
        ),
    ],
)
def test_a_query_that_does_not_run_has_one_finding(
    state: QueryState, options: dict[str, Any], code: str, sentence: str
) -> None:
    (finding,) = findings_of(ROWS, (5.0, progress(bad_records=3)), now=99.0, of=query(state, **options))
    assert finding.code == code
    assert code in CODES
    assert sentence in finding.sentence


def test_a_query_waits_for_executors_or_for_slots_with_the_numbers() -> None:
    starting = query(QueryState.STARTING)
    (finding,) = findings_of(ROWS, of=starting, awaited="2 executors with 1 core and 1g each on spark://m:7")
    assert (finding.code, finding.warns) == ("pool_starting", True)
    assert "waits for 2 executors with 1 core and 1g each on spark://m:7" in finding.sentence
    assert findings_of(ROWS, of=starting) == []
    (finding,) = findings_of(ROWS, now=31.0, slots=PoolSlots(executors=2, slots=4, used=4))
    assert finding.code == "slots_busy"
    assert "no slot of its compute pool is free (4 slots)" in finding.sentence
    (finding,) = findings_of(ROWS, now=31.0, slots=PoolSlots(executors=2, slots=4, used=3))
    assert finding.code == "no_batch"


@pytest.mark.parametrize(
    ("executors", "requested", "code", "sentence"),
    [
        (0, None, "no_executors", "waits for executors: its compute pool has none"),
        (0, 2, "no_executors", "waits for executors: its compute pool has none"),
        (1, 2, "few_executors", "has 1 of 2, with 2 slots and 1 running task"),
        (2, 2, None, ""),
        (3, 2, None, ""),
        (1, None, None, ""),
    ],
)
def test_a_query_waits_for_the_executors_that_its_pool_wants(
    executors: int, requested: int | None, code: str | None, sentence: str
) -> None:
    slots = PoolSlots(executors=executors, slots=2 * executors, used=executors, requested=requested)
    findings = findings_of(ROWS, (10.0, progress()), slots=slots)
    assert [(each.code, each.code in CODES) for each in findings] == ([(code, True)] if code else [])
    assert not code or sentence in findings[0].sentence


def test_old_batches_do_not_count_for_late_rows() -> None:
    late, good = progress(input_rows=900, late_rows=900), progress(input_rows=101)
    assert [each.code for each in findings_of(WINDOWS, (1.0, late))] == ["late_rows"]
    assert findings_of(WINDOWS, (1.0, late), (2.0, good)) == []


@pytest.mark.parametrize(
    ("frame", "grows"),
    [("", True), ("ROWS 2 PRECEDING", True), ("RANGE BETWEEN 5000 PRECEDING AND CURRENT ROW", False)],
)
def test_partitions_of_over_are_kept_for_ever_unless_their_frames_end(frame: str, grows: bool) -> None:
    text = f"CREATE STREAM s AS SELECT SUM(distance) OVER (PARTITION BY carrier ORDER BY flight_time {frame}) AS d FROM flights"
    batches = ((0.0, progress(state_rows=1_000_000)), (600.0, progress(state_rows=1_500_000)))
    codes = [finding.code for finding in findings_of(text, *batches, now=610.0)]
    assert ("state_grows" in codes) is grows


def test_a_query_that_was_restarted_often_has_a_finding_until_it_has_settled() -> None:
    def codes(restarts: int, now: float) -> list[str]:
        batch = (now - 1, progress())
        present = findings_of(ROWS, batch, now=now, of=query(restarts=restarts))
        assert all("restarted it 4 times" in each.text and "query_events" in each.remedy for each in present)
        return [each.code for each in present]

    assert codes(4, 20.0) == ["restarts_often"]
    assert codes(4, 601.0) == codes(2, 20.0) == []
