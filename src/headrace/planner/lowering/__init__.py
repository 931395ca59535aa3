"""Placed operators as steps: one function a node, in a module for each family of them.

`FRAGMENTS` are nodes that stand in FROM, `SELECTS` those that are a SELECT of their own; `fragments` fuses what is stateless,
`context` has what the functions share. To add an operator: its step in `planner.physical`, its node's function in one of these
tables, its traits and its mode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headrace.analyzer.logical import (
    Aggregate,
    Filter,
    FromChangelog,
    IntervalJoin,
    LogicalNode,
    LookupJoin,
    MatchRecognize,
    OverAggregate,
    Project,
    RegularJoin,
    Scan,
    SingleRow,
    Subquery,
    TemporalJoin,
    TimeWindow,
    ToChangelog,
    TopN,
    Union,
    Unnest,
    WindowExtremes,
)
from headrace.planner.lowering import (
    aggregates,
    changes,
    joins,
    over,
    patterns,
    selects,
    sources,
    top_n,
    window_extremes,
)
from headrace.planner.lowering.fragments import Fragment, Rows
from headrace.planner.modes import Materialize, Normalize

FRAGMENTS: Mapping[type[LogicalNode], Callable[..., Fragment]] = {
    Scan: sources.scan,
    SingleRow: sources.single_row,
    Subquery: sources.subquery,
    Filter: sources.filtered,
    Unnest: sources.unnest,
    TimeWindow: sources.time_window,
    ToChangelog: changes.to_changelog,
    FromChangelog: changes.from_changelog,
    IntervalJoin: joins.interval_join,
    TemporalJoin: joins.temporal_join,
    LookupJoin: joins.lookup_join,
    RegularJoin: joins.regular_join,
    TopN: top_n.top_n,
    WindowExtremes: window_extremes.window_extremes,
    MatchRecognize: patterns.match_recognize,
    OverAggregate: over.over_aggregate,
    Normalize: changes.normalized,
}
SELECTS: Mapping[type[LogicalNode], Callable[..., Rows]] = {
    Project: selects.project,
    Union: selects.union,
    Aggregate: aggregates.aggregate,
    Normalize: changes.normalized_rows,
    Materialize: changes.materialized_rows,
}
