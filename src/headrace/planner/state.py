"""State of a query's operators and its bound: for EXPLAIN, for warnings, and for the execution mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.analyzer.event_times import watermark_calls
from headrace.analyzer.logical import (
    Aggregate,
    IntervalJoin,
    LogicalNode,
    MatchRecognize,
    OverAggregate,
    RegularJoin,
    Subquery,
    TemporalJoin,
    TimeWindow,
    ToChangelog,
    TopN,
    WindowExtremes,
    walk,
)
from headrace.analyzer.over_aggregates import frame_of
from headrace.analyzer.traits import (
    closes_at_once,
    joins_windows,
    ranks_windows,
    session_of,
    window_groups,
)
from headrace.core.names import printed
from headrace.core.wording import counted
from headrace.planner.display import SHOWN
from headrace.planner.modes import Materialize, Mode, Normalize, Operator, operators
from headrace.sql.ast import duration_text

WINDOWS_END = "until the watermark passes the end of their window"


@dataclass(frozen=True)
class State:
    """State of an operator: its word in the dialect, its place in the query, its contents, and its end (None: never).

    `waits` says that event time decides when its rows come or go.
    """

    word: str
    of: str
    kept: str
    bound: str | None
    waits: bool
    operator: Operator

    def text(self) -> str:
        """Return a line of EXPLAIN."""
        modes = " and ".join(dict.fromkeys(below.mode.value for below in self.operator.inputs))
        bound = self.bound or f"forever: it grows with {_growth(self.operator.node)}"
        return f"{self.word}{self.of} (takes {modes}, gives {self.operator.mode.value}): {self.kept}, {bound}"


def states(operator: Operator, ttl_ms: int) -> list[State]:
    """Return the state of every operator, the sources' first."""
    per_operator = [_state(item, ttl_ms) for item in operators(operator)]
    return [state for state in reversed(per_operator) if state is not None]


def needs_event_time(operator: Operator, ttl_ms: int) -> bool:
    """True when something in the plan waits for, is bounded by, or selects event time's progress."""
    return any(state.waits for state in states(operator, ttl_ms)) or reads_watermark(operator)


def reads_watermark(operator: Operator) -> bool:
    """True if the query calls CURRENT_WATERMARK."""
    return any(True for item in operators(operator) for _ in watermark_calls(item.node))


def _state(operator: Operator, ttl_ms: int) -> State | None:
    node = operator.node
    lived = f"until not touched for {duration_text(ttl_ms)} of event time" if ttl_ms else None

    def state(word: str, contents: str, bound: str | None, *, waits: bool = False, of: str = "") -> State:
        return State(word, of, contents, bound, waits or (lived is not None and bound == lived), operator)

    match node:
        case Aggregate():
            groups = f" by {', '.join(map(SHOWN.bare, node.group_by))}" if node.group_by else ""
            if window_groups(node):
                return state(_windows(node), "groups of open windows", WINDOWS_END, waits=True, of=groups)
            if not node.group_by:
                return state("an aggregate", "one row", "which does not grow")
            return state("GROUP BY", "a row for each group", lived, of=f" {groups[4:]}")
        case IntervalJoin():
            span = duration_text(max(abs(node.lower_ms), abs(node.upper_ms)))
            bound = f"until the watermark is {span} past them"
            return state("WITHIN join", "rows of both sides", bound, waits=True, of=_with(node.right))
        case TemporalJoin():
            contents = (
                "rows of the stream until both watermarks pass them; versions of "
                f"{printed(node.right.alias)} by key"
            )
            until = (
                f"of which the last is valid for {duration_text(ttl_ms)} of event time" if ttl_ms else None
            )
            return state("temporal join", contents, until, waits=True, of=_with(node.right))
        case RegularJoin():
            if joins_windows(node):
                return state(
                    "window join", "rows of both sides", WINDOWS_END, waits=True, of=_with(node.right)
                )
            return state("join", "all rows of both sides", lived, of=_with(node.right))
        case TopN():
            if ranks_windows(node):
                return state("window Top-N", "rows of open windows", WINDOWS_END, waits=True)
            first = (
                f"rows with the first {counted(node.limit, 'rank')}"
                if node.has_ties
                else f"the first {counted(node.limit, 'row')}"
            )
            if operator.inputs[0].mode is Mode.INSERT and not node.partition_by and not node.has_ties:
                return state("Top-N", first, "which do not grow")
            contents = (
                f"{first} of each partition"
                if operator.inputs[0].mode is Mode.INSERT
                else "all rows of each partition"
            )
            partition = ", ".join(map(SHOWN.bare, node.partition_by))
            return state("Top-N", contents, lived, of=f" by {partition}" if partition else "")
        case WindowExtremes() if not closes_at_once(node.input):
            contents = f"the rows with the {node.function} of each open window"
            return state(f"window {node.function}", contents, WINDOWS_END, waits=True)
        case MatchRecognize():
            return _matches(node, ttl_ms, operator)
        case ToChangelog() if operator.inputs[0].mode is Mode.UPSERT:
            return state("TO_CHANGELOG", "one row for each key", lived)
        case OverAggregate():
            return _frames(node, lived, operator)
        case Normalize():
            return state("the last row of each key", "one row for each key", lived, of=_of(node.input))
        case Materialize():
            return state("the rows of each key", "the rows of each key of the result", lived)
    return None


def _matches(node: MatchRecognize, ttl_ms: int, operator: Operator) -> State:
    """Return the state of a pattern: rows wait for the watermark, and then as long as they may be part of a match."""
    contents, bounds = "rows of incomplete matches", [node.within_ms, ttl_ms]
    kinds = {item.kind for item in node.navigations}
    if "number" in kinds:
        contents, bounds = f"{contents}, and the number of matches of each partition", [ttl_ms]
    if kinds & {"prev", "final_prev"}:
        contents, bounds = f"{contents}, and the last ones of each partition", [ttl_ms]
    longest = min(filter(None, bounds), default=None)
    bound = f"until the watermark is {duration_text(longest)} past them" if longest is not None else None
    partition = ", ".join(map(SHOWN.bare, node.partition_by))
    of = f" by {partition}" if partition else ""
    return State("MATCH_RECOGNIZE", of, contents, bound, waits=True, operator=operator)


def _frames(node: OverAggregate, lived: str | None, operator: Operator) -> State:
    """Return the state of window functions: rows wait for the watermark, and then as long as they are in a frame."""
    frames = [frame_of(over) for _, over in node.calls]
    rows = [preceding for unit, preceding in frames if unit == "ROWS" and preceding is not None]
    spans = [preceding for unit, preceding in frames if unit == "RANGE" and preceding is not None]
    kept = ["rows until the watermark passes them"]
    kept += [f"the last {counted(max(rows) + 1, 'row')} of each partition"] if rows else []
    kept += [f"the rows of the last {duration_text(max(spans))}"] if spans else []
    kept += ["results of each partition"] if any(preceding is None for _, preceding in frames) else []
    bound = lived
    if len(spans) == len(frames):
        bound = f"until the watermark is {duration_text(max(spans))} past them"
    partition = ", ".join(map(SHOWN.bare, node.partition_by))
    of = f" by {partition}" if partition else ""
    if not partition and bound is None:
        bound = "which do not grow"
    return State("OVER", of, "; ".join(kept), bound, waits=True, operator=operator)


def _windows(node: Aggregate) -> str:
    session = session_of(node)
    if session is not None:
        return session.kind.value
    windows = (part for part in walk(node.input) if isinstance(part, TimeWindow))
    return next((window.kind.value for window in windows), "GROUP BY of windows")


def _with(node: LogicalNode) -> str:
    return f" with {', '.join(printed(source.alias) for source in node.sources)}"


def _of(node: LogicalNode) -> str:
    aliases = [source.alias for source in node.sources]
    if isinstance(node, Subquery):
        aliases = [node.alias]
    return f" of {', '.join(map(printed, aliases))}" if aliases else ""


def _growth(node: LogicalNode) -> str:
    match node:
        case Aggregate():
            return "the number of groups"
        case TemporalJoin() | ToChangelog() | Normalize() | Materialize():
            return "the number of keys"
        case TopN() | MatchRecognize() | OverAggregate():
            return "the number of partitions"
    return "the rows of both sides"


def warning(operator_states: Sequence[State]) -> str | None:
    """Return a warning about unbounded state; None if all is bounded."""
    growing = [f"{state.word}{state.of}" for state in operator_states if state.bound is None]
    if not growing:
        return None
    return f"the state of {'; '.join(growing)} is unbounded: QUERY WITH ('state.ttl.millis' = …) limits it"
