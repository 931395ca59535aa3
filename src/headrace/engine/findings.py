"""Findings: why a query has no output, or will have a problem. Pure rules over its plan, its state and what its batches reported.

A rule is a function that returns a finding or None. To add one: a function under `@_of_batches`, a row in docs/operations.md, and a case in
`tests/unit/engine/test_findings.py`.
"""

from __future__ import annotations

import datetime
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.catalog.objects import Query, QueryState
from headrace.core.names import Identifier
from headrace.core.sqlstate import SqlState
from headrace.core.wording import counted, plural
from headrace.engine.protocol import PoolSlots, QueryProgress
from headrace.planner import physical
from headrace.planner.physical import SparkPlan

CODES = (
    "all_filtered",
    "bad_records",
    "errored",
    "few_executors",
    "field_case",
    "function_failures",
    "future_rows",
    "lag_grows",
    "late_rows",
    "log_retained",
    "no_batch",
    "no_event_time",
    "no_executors",
    "no_input",
    "no_partner",
    "pool_starting",
    "pool_stopped",
    "queued",
    "restarting",
    "restarts_often",
    "slots_busy",
    "state_grows",
    "state_near_limit",
    "store_away",
    "terminated",
    "watermark_behind",
    "watermark_missing",
)
"""The code of every finding."""
FIRST_BATCH_S = 30.0
"""Seconds after which a running query without a batch gets a finding."""
SILENCE_S = 60.0
"""Seconds without a record after which that is a finding."""
_ROWS = 1000
"""Number of newest rows that count for late rows. A finding requires that a tenth of them have been read."""
_LATE_SHARE = 0.9
_BEHIND_MS = 60_000
"""Distance of a partition's event time from the newest one of its source that is worth a finding."""
_LAG_MIN = 10_000
_LAG_S = 60.0
"""A lag is a problem if it has this many records and has doubled within this time."""
_STATE_MIN = 1_000_000
_NEAR_LIMIT = 0.8
_RESTARTS_MIN = 3
_SETTLED_S = 600.0
"""A query that has been restarted so often has a finding until it has run for so many seconds."""
STATE_REMEDY = (
    "QUERY WITH ('state.ttl.millis' = …) in a new query removes rows that are not used for that long. The server's operator can raise "
    "HEADRACE_QUERY_STATE_MB_MAX."
)
_HISTORY = 600
_PHASES = {
    "latestOffset": "asking the source for its end",
    "getBatch": "planning what to read",
    "queryPlanning": "planning",
    "addBatch": "reading, computing and writing",
    "walCommit": "writing the checkpoint",
    "commitOffsets": "writing the checkpoint",
}


@dataclass(frozen=True)
class Finding:
    """A problem of a query: a code for programs, the step of its plan, a sentence and what to do about it.

    A finding that `warns` is also in the message of LIST QUERIES. Others may be what the user expects: an entity without new records, or
    records that a property says to skip.
    """

    code: str
    sentence: str
    remedy: str
    step: str | None = None
    warns: bool = True

    @property
    def text(self) -> str:
        """The sentence and the remedy."""
        return f"{self.sentence}. {self.remedy}"


@dataclass
class Observations:
    """Reports of the batches of one run of a query. Times are of the monotonic clock, in seconds."""

    started: float | None = None
    last_input: float | None = None
    input_rows: int = 0
    has_batch: bool = False
    late: deque[tuple[int, int]] = field(default_factory=deque)
    lags: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=_HISTORY))
    states: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=_HISTORY))
    passed: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Rows that came to, and passed, each condition and join, in the batches that were reported."""

    def add(self, progress: QueryProgress, now: float) -> None:
        """Add the batches since the last call."""
        self.has_batch = True
        if progress.input_rows:
            self.last_input = now
            self.input_rows += progress.input_rows
            self.late.append((progress.input_rows, progress.late_rows))
            for step in progress.steps:
                came, passed = self.passed.get(step.step, (0, 0))
                self.passed[step.step] = (came + step.input_rows, passed + step.output_rows)
        while len(self.late) > 1 and sum(rows for rows, _ in self.late) - self.late[0][0] >= _ROWS:
            self.late.popleft()
        self.lags.append((now, sum(sum(splits.values()) for splits in progress.lag.values())))
        self.states.append((now, progress.state_rows))

    def copy(self) -> Observations:
        """Return the observations as they are now: batches are added while another thread reads."""
        return replace(
            self,
            late=self.late.copy(),
            lags=self.lags.copy(),
            states=self.states.copy(),
            passed=self.passed.copy(),
        )


@dataclass(frozen=True)
class Subject:
    """A query to diagnose, at the time `now` of the monotonic clock. `progress` is its last batch, None before the first one.

    `slots` are those of its compute pool, if that runs on a cluster. `awaited` is what a driver waits for that is not ready.
    """

    query: Query
    plan: SparkPlan
    observed: Observations
    progress: QueryProgress | None
    now: float
    backlog_bytes_max: int
    state_bytes_max: int = 0
    """0 for no limit."""
    slots: PoolSlots | None = None
    awaited: str | None = None
    queued: str | None = None
    """Position of a query that waits in the queue of its compute pool."""
    failed_test: Callable[[str], str | None] = lambda _store: None
    """Why the last test of a store failed; None for a store that answered, or was not tested."""

    @property
    def running_s(self) -> float:
        """Seconds since the driver started the query; 0 while it does not run."""
        return self.now - self.observed.started if self.observed.started is not None else 0.0

    @property
    def reads(self) -> list[physical.ReadEntity | physical.ReadRows]:
        """The sources."""
        return [step for step in self.plan.steps if isinstance(step, physical.ReadEntity | physical.ReadRows)]


Rule = Callable[[Subject], Finding | None]
_OF_STATE: list[Rule] = []
_OF_BATCHES: list[Rule] = []


def findings(subject: Subject) -> list[Finding]:
    """Return the findings of a query, the most likely cause of missing output first."""
    rules = [*_OF_STATE, *(_OF_BATCHES if subject.query.actual_state is QueryState.RUNNING else ())]
    return [finding for rule in rules if (finding := rule(subject)) is not None]


def _of_state(rule: Rule) -> Rule:
    _OF_STATE.append(rule)
    return rule


def _of_batches(rule: Rule) -> Rule:
    """Register a rule for queries that run."""
    _OF_BATCHES.append(rule)
    return rule


# --- a query that does not run


@_of_state
def _not_running(subject: Subject) -> Finding | None:
    query = subject.query
    reason = (query.message or "without a message").rstrip(".")
    if query.actual_state is QueryState.ERRORED:
        return Finding(
            "errored", f"the query has stopped: {reason}", f"Remove the cause, then RESTART QUERY {query.id};"
        )
    if query.actual_state is QueryState.QUEUED and subject.queued is not None:
        return Finding(
            "queued",
            subject.queued,
            "The query starts when others of the pool have ended. TERMINATE one of them, or add slots to the pool.",
        )
    if query.actual_state is QueryState.STARTING and subject.awaited is not None:
        return Finding(
            "pool_starting",
            f"the query waits for its compute pool, which waits for {subject.awaited}",
            "LIST COMPUTE_POOLS shows the state of the pool, and its error if it does not start.",
        )
    if query.actual_state is QueryState.RESTARTING:
        away = query.sqlstate == SqlState.REMOTE_UNAVAILABLE.value
        remedy = (
            "The query continues when the store answers. TEST STORE shows the step that fails."
            if away
            else "The query is tried again. If that does not help, TERMINATE it and correct its statement."
        )
        attempt = f" (attempt {query.restarts})" if query.restarts > 1 else ""
        return Finding(
            "store_away" if away else "restarting", f"the query is being restarted{attempt}: {reason}", remedy
        )
    if query.actual_state in (QueryState.TERMINATED, QueryState.TERMINATE_REQUESTED):
        return Finding(
            "terminated", "the query was ended by a user", f"RESTART QUERY {query.id}; continues it."
        )
    if query.actual_state is QueryState.STOPPED:
        return Finding("pool_stopped", f"the query waits: {reason}", "START COMPUTE_POOL continues it.")
    return None


# --- a query that runs


@_of_batches
def _restarts_often(subject: Subject) -> Finding | None:
    query = subject.query
    if query.restarts < _RESTARTS_MIN or subject.running_s >= _SETTLED_S:
        return None
    return Finding(
        "restarts_often",
        f"the query runs, but the server has restarted it {query.restarts} times, the last time {subject.running_s:.0f} s ago",
        "deltastream.sys.query_events has the cause of each restart.",
    )


@_of_batches
def _no_executors(subject: Subject) -> Finding | None:
    slots = subject.slots
    if slots is None or slots.executors >= (slots.requested or 1):
        return None
    remedy = (
        "The master starts others when workers have room for them. Start workers, or see the logs of the workers for the reason why "
        "executors end."
    )
    if not slots.executors:
        return Finding("no_executors", "the query waits for executors: its compute pool has none", remedy)
    return Finding(
        "few_executors",
        f"the query waits for executors: its compute pool has {slots.executors} of {slots.requested}, with "
        f"{counted(slots.slots, 'slot')} and {counted(slots.used, 'running task')}",
        remedy,
        warns=False,
    )


@_of_batches
def _store_away(subject: Subject) -> Finding | None:
    """Report a store whose last test failed: a driver notices only stores of which it reads all the time, unlike those of tables."""
    for name in sorted({step.store for step in subject.plan.steps if isinstance(step, physical.StoreStep)}):
        problem = subject.failed_test(name)
        if problem is not None:
            return Finding(
                "store_away",
                f"the last test of the store {name!r} failed: {problem.splitlines()[0].rstrip('.')}",
                f"TEST STORE {Identifier(name)} tests it again, and shows what to do.",
            )
    return None


@_of_batches
def _no_batch(subject: Subject) -> Finding | None:
    slots = subject.slots
    if subject.observed.has_batch or subject.running_s < FIRST_BATCH_S:
        return None
    since = f"no batch has ended in the {subject.running_s:.0f} s since the query was started"
    if slots is not None and 0 < slots.slots <= slots.used:
        return Finding(
            "slots_busy",
            f"{since}: no slot of its compute pool is free ({counted(slots.slots, 'slot')})",
            "Add executors to the pool with UPDATE COMPUTE_POOL, or TERMINATE other queries of the pool.",
        )
    return Finding(
        "no_batch",
        f"{since}: its sources have no new records, or reading has not started",
        _about_position(subject)
        + " If the sources have new records, the log of the compute pool contains more.",
    )


@_of_batches
def _no_input(subject: Subject) -> Finding | None:
    observed = subject.observed
    since = observed.last_input if observed.last_input is not None else observed.started
    if not observed.has_batch or since is None or subject.now - since < SILENCE_S:
        return None
    sources = ", ".join(".".join(step.entity) for step in subject.reads)
    waiting = sum(
        sum(splits.values()) for splits in (subject.progress.lag if subject.progress else {}).values()
    )
    end = "" if waiting else ", and the query has read it to its end"
    return Finding(
        "no_input",
        f"no record has come from {sources} for {subject.now - since:.0f} s{end}",
        _about_position(subject),
        subject.reads[0].id if subject.reads else None,
        warns=False,
    )


def _about_position(subject: Subject) -> str:
    latest = any(step.starting_position == "latest" for step in subject.reads)
    if latest and not subject.observed.input_rows:
        return (
            "Records that were there before the query was created are not read: WITH ('starting.position' = 'earliest') after the "
            "relation's name reads them, in a new query."
        )
    return "PRINT ENTITY shows whether the entity has records."


@_of_batches
def _no_watermark(subject: Subject) -> Finding | None:
    # A partition that never had a record has no event time, and holds all windows and joins back (ADR 5).
    if (
        not subject.observed.input_rows
        or subject.progress is None
        or subject.progress.watermark_ms is not None
    ):
        return None
    for step, source in _watermarked(subject):
        silent = [split for split in _active(source) if split["maxEventTimeMs"] is None]
        if silent:
            first = silent[0]
            return Finding(
                "watermark_missing",
                f"nothing that waits for event time is emitted: {_split(first)} has had no record with an event time, and holds back the "
                f"watermark of {counted(len(source['partitions']), 'partition')}",
                _about_idle(source),
                step.id,
            )
    return None


@_of_batches
def _watermark_behind(subject: Subject) -> Finding | None:
    for step, source in _watermarked(subject):
        timed = [split for split in _active(source) if split["maxEventTimeMs"] is not None]
        if len(timed) < 2:
            continue
        slowest, newest = (choose(timed, key=lambda split: split["maxEventTimeMs"]) for choose in (min, max))
        if newest["maxEventTimeMs"] - slowest["maxEventTimeMs"] >= _BEHIND_MS:
            return Finding(
                "watermark_behind",
                f"what waits for event time waits for {_split(slowest)}, which is at {_moment(slowest['maxEventTimeMs'])}, while "
                f"{_split(newest)} is at {_moment(newest['maxEventTimeMs'])}",
                _about_idle(source),
                step.id,
            )
    return None


def _watermarked(subject: Subject) -> Iterator[tuple[physical.AssignWatermark, dict[str, Any]]]:
    """Yield the steps with a watermark, each with the partitions of its source as the driver describes them."""
    described: Any = (subject.progress.detail if subject.progress is not None else {}).get("watermark", {})
    sources = {source["name"]: source for source in described.get("sources", ())}
    for step in subject.plan.steps:
        if isinstance(step, physical.AssignWatermark) and step.source in sources:
            yield step, sources[step.source]


def _active(source: dict[str, Any]) -> Iterable[dict[str, Any]]:
    return (split for split in source["partitions"] if not split["idle"])


def _split(split: dict[str, Any]) -> str:
    return f"partition {split['partition']} of {split['entity']}"


def _about_idle(source: dict[str, Any]) -> str:
    if source["idleTimeoutMs"]:
        return f"A partition without records counts as idle after {source['idleTimeoutMs'] / 1000:g} s."
    return (
        "If the partition is to stay empty or slow, WITH ('source.idle.timeout.millis' = 10000) after the relation's name lets the "
        "others continue without it."
    )


@_of_batches
def _late(subject: Subject) -> Finding | None:
    rows, late = (
        (sum(figures) for figures in zip(*subject.observed.late, strict=True))
        if subject.observed.late
        else (0, 0)
    )
    if rows < _ROWS / 10 or late < rows * _LATE_SHARE:
        return None
    watermark = subject.progress.watermark_ms if subject.progress is not None else None
    reached = "" if watermark is None else f" ({_moment(watermark)})"
    return Finding(
        "late_rows",
        f"{late / rows:.0%} of the last {rows:,} rows were behind the watermark{reached} and are not counted",
        "See late_rows in DESCRIBE QUERY METRICS. 'source.allow.latency.millis' waits longer for late rows.",
    )


@_of_batches
def _skipped(subject: Subject) -> Finding | None:
    progress = subject.progress
    if progress is None:
        return None
    kinds = (
        (
            "bad_records",
            progress.bad_records,
            "records could not be read and were skipped",
            "Name a topic for them with "
            "'source.deserialization.error.handling' = DEAD_LETTER, which stores each with its reason.",
        ),
        (
            "future_rows",
            progress.future_rows,
            "rows were skipped because their event times are too far in the future",
            "Correct the clock or the unit of the producer's times, or raise 'source.allow.future.millis'.",
        ),
        (
            "function_failures",
            progress.function_failures,
            "rows had a function of a user that failed: its result is NULL, or the row is skipped",
            "'source.function.error.handling' = DEAD_LETTER stores the record of each with the function's error.",
        ),
        (
            "no_event_time",
            progress.timeless_rows,
            "rows have no event time and are not counted",
            "The column of 'timestamp' is NULL in them: filter them, or name another column.",
        ),
    )
    for code, count, text, remedy in kinds:
        if count:
            sentence = f"{count:,} of the last {progress.input_rows:,} {text}"
            return Finding(code, sentence, remedy, warns=False)
    return None


@_of_batches
def _differing_case(subject: Subject) -> Finding | None:
    spellings: Any = (subject.progress.detail if subject.progress is not None else {}).get(
        "fields_that_differ_in_case"
    )
    if not spellings:
        return None
    fields = ", ".join(f"{field!r} (column {column})" for field, column in sorted(spellings.items()))
    return Finding(
        "field_case",
        f"columns are NULL because the fields of the records are written differently: {fields}",
        "Declare the columns in double quotes, as the fields are written.",
        warns=False,
    )


@_of_batches
def _nothing_passes(subject: Subject) -> Finding | None:
    """Report the first step, from the sources on, that has let no row through: steps after it have had none."""
    for step, (came, passed) in subject.observed.passed.items():
        if not came or passed:
            continue
        if step.split()[0].endswith("WHERE"):
            return Finding(
                "all_filtered",
                f"the condition {step.partition('WHERE ')[2]} has let none of {_rows(came)} through",
                "Compare it with the records, which PRINT ENTITY shows: the values of its columns may be NULL or spelled differently.",
                step,
                warns=False,
            )
        return Finding(
            "no_partner",
            f"the join {step.partition(' ON ')[2] or step} has found no pair among {_rows(came)}",
            "Compare the keys of both sides, which PRINT ENTITY shows. A join over event time also requires both times within its bounds.",
            step,
            warns=False,
        )
    return None


def _rows(count: int) -> str:
    return f"{count:,} {plural('row', count)}"


@_of_batches
def _lag_grows(subject: Subject) -> Finding | None:
    lags, progress = subject.observed.lags, subject.progress
    if progress is None or not lags:
        return None
    now, last = lags[-1]
    before = [lag for time, lag in lags if now - time >= _LAG_S]
    if not before or last < _LAG_MIN or last < 2 * before[-1]:
        return None
    durations: Any = progress.detail.get("durations_ms", {})
    phase = max(_PHASES, key=lambda name: durations.get(name, 0))
    splits = {(entity, split): lag for entity, of in progress.lag.items() for split, lag in of.items()}
    hot = max(splits, key=lambda place: splits[place])
    one = (
        f", {splits[hot] / last:.0%} of them in partition {hot[1]} of {hot[0]}"
        if len(splits) > 1 and splits[hot] > last * 0.8
        else ""
    )
    return Finding(
        "lag_grows",
        f"the query is {last:,} records behind{one}, and was {before[-1]:,} behind a minute ago",
        f"Most of a batch's time is spent on {_PHASES[phase]}. Use a larger compute pool or more partitions, or compute less.",
    )


@_of_batches
def _log_retained(subject: Subject) -> Finding | None:
    backlog = subject.progress.backlog_bytes if subject.progress is not None else {}
    entity, size = max(backlog.items(), key=lambda item: item[1], default=("", 0))
    if size <= subject.backlog_bytes_max:
        return None
    return Finding(
        "log_retained",
        f"the store of {entity} retains {size / 2**20:,.0f} MiB of its log, because the query has not confirmed reading it",
        "See backlog_bytes in DESCRIBE QUERY METRICS. The query is too slow, or a transaction has been open for long; the store's disk "
        "fills up.",
    )


@_of_batches
def _state_grows(subject: Subject) -> Finding | None:
    step = next(filter(_is_unbounded, subject.plan.steps), None)
    native = subject.plan.output_mode == "update" and bool(subject.plan.groupings)
    states = subject.observed.states
    if not states or (step is None and not native):
        return None
    (began, first), (now, last) = states[0], states[-1]
    if last < _STATE_MIN or last < first * 1.2 or now - began < SILENCE_S:
        return None
    return Finding(
        "state_grows",
        f"the state has {last:,} rows, {last - first:,} more than {counted(round((now - began) / 60), 'minute')} ago, and "
        "nothing bounds it",
        "QUERY WITH ('state.ttl.millis' = …) removes rows that are not used for that long, in a new query.",
        step.id if step is not None else None,
    )


@_of_batches
def _state_near_limit(subject: Subject) -> Finding | None:
    size = state_size(subject.progress) if subject.progress is not None else 0
    if not subject.state_bytes_max or size < subject.state_bytes_max * _NEAR_LIMIT:
        return None
    return Finding(
        "state_near_limit",
        f"the state has {size / 2**20:,.0f} MiB, {size / subject.state_bytes_max:.0%} of the limit at which the query is stopped",
        STATE_REMEDY,
    )


def state_size(progress: QueryProgress) -> int:
    """Return the bytes of a query's state, in memory and in files."""
    return progress.state_bytes + progress.state_file_bytes


def _is_unbounded(step: physical.Step) -> bool:
    kinds = (
        physical.ChangelogAggregate,
        physical.ChangelogJoin,
        physical.Normalize,
        physical.Materialize,
        physical.TopN,
    )
    if isinstance(step, physical.OverAggregate):
        # A partition whose frames are all spans of time ends with them.
        ends = all(call.unit == "range" and call.preceding is not None for call in step.calls)
        return not step.state_ttl_ms and not ends
    return isinstance(step, kinds) and not step.state_ttl_ms and getattr(step, "closes", None) is None


def _moment(milliseconds: int) -> str:
    return datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")
