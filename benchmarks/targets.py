"""Targets of the figures, on two cores with nothing else running."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from benchmarks.scale import OPERATORS as KEEPING
from benchmarks.shapes import PEERED
from benchmarks.state import OPERATORS


@dataclass(frozen=True)
class Target:
    """A bound on the median of one figure."""

    measurement: str
    figure: str
    bound: Literal["at_least", "at_most"]
    value: float

    def met(self, measured: float) -> bool:
        """True if a median is within the bound."""
        return measured >= self.value if self.bound == "at_least" else measured <= self.value


TARGETS = (
    Target("projection", "records_per_s", "at_least", 100_000),
    Target("group_by", "records_per_s", "at_least", 200_000),
    Target("grouping_sets", "records_per_s", "at_least", 100_000),
    Target("tumble", "records_per_s", "at_least", 150_000),
    Target("hop", "records_per_s", "at_least", 150_000),
    Target("interval_join", "records_per_s", "at_least", 100_000),
    Target("temporal_join", "records_per_s", "at_least", 100_000),
    Target("stream_join", "records_per_s", "at_least", 100_000),
    Target("changelog_group_by", "records_per_s", "at_least", 60_000),
    Target("changelog_join_group_by", "records_per_s", "at_least", 40_000),
    Target("top_n", "records_per_s", "at_least", 60_000),
    Target("keep_last", "records_per_s", "at_least", 60_000),
    Target("over", "records_per_s", "at_least", 80_000),
    *(Target(shape, "flink_ratio", "at_least", 1.0) for shape in PEERED),
    *(Target("state", f"{operator}_growth_percent", "at_most", 10) for operator in OPERATORS),
    Target("state", "driver_growth_percent", "at_most", 10),
    *(Target("many_keys", f"{operator}_many_rss_mb", "at_most", 1536) for operator in KEEPING),
    *(Target("many_keys", f"{operator}_near_cost_ratio", "at_most", 1.5) for operator in KEEPING),
    Target("replay", "largest_batch_records", "at_most", 200_000),
    Target("replay", "written_at_half_percent", "at_least", 40),
    Target("replay", "driver_growth_percent", "at_most", 10),
    Target("delivery", "exactly_once_cost_percent", "at_most", 20),
    Target("latency", "micro_batch_p50_ms", "at_most", 60),
    Target("latency", "sparse_micro_batch_p50_ms", "at_most", 100),
    Target("latency", "real_time_p50_ms", "at_most", 3),
    Target("stateful_latency", "group_by_p50_ms", "at_most", 60),
    Target("stateful_latency", "tumble_p50_ms", "at_most", 100),
    Target("start_up", "ready_s", "at_most", 5),
    Target("start_up", "pool_warm_s", "at_most", 20),
    Target("start_up", "first_interactive_row_s", "at_most", 1.5),
    Target("start_up", "server_rss_mb", "at_most", 250),
    Target("recovery", "driver_killed_s", "at_most", 20),
    Target("recovery", "server_killed_s", "at_most", 20),
    Target("recovery_standby", "with_standby_driver_killed_s", "at_most", 3),
    Target("savepoints", "savepoint_s", "at_most", 3),
    Target("savepoints", "savepoint_gap_s", "at_most", 1),
    Target("savepoints", "replacement_gap_s", "at_most", 3),
    Target("savepoints", "restore_s", "at_most", 10),
    Target("kinesis", "source_records_per_s", "at_least", 8_000),
    Target("kinesis", "sink_records_per_s", "at_least", 5_000),
    Target("postgresql", "snapshot_rows_per_s", "at_least", 80_000),
    Target("postgresql", "changes_per_s", "at_least", 30_000),
    Target("postgresql", "live_p50_ms", "at_most", 200),
    Target("iceberg_append", "rows_per_s", "at_least", 80_000),
    Target("iceberg_upsert", "rows_per_s", "at_least", 15_000),
    Target("s3_parquet", "rows_per_s", "at_least", 120_000),
    Target("clickhouse", "rows_per_s", "at_least", 100_000),
    Target("cluster_throughput", "projection_ratio", "at_least", 0.8),
    Target("cluster_throughput", "group_by_ratio", "at_least", 0.8),
    Target("cluster_throughput", "pool_warm_s", "at_most", 25),
    Target("cluster_delivery", "exactly_once_cost_percent", "at_most", 10),
    Target("cluster_recovery", "worker_killed_s", "at_most", 15),
    Target("take_over", "take_over_s", "at_most", 10),
)


def compared(medians: Mapping[tuple[str, str], float]) -> list[dict[str, object]]:
    """Return the targets that were measured, with their figures."""
    return [
        {
            "measurement": target.measurement,
            "figure": target.figure,
            "bound": target.bound,
            "target": target.value,
            "median": medians[target.measurement, target.figure],
            "met": target.met(medians[target.measurement, target.figure]),
        }
        for target in TARGETS
        if (target.measurement, target.figure) in medians
    ]
