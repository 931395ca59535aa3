"""Sizes of the measurements."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """Sizes of the measurements."""

    projection_records: int = 1_000_000
    window_records: int = 1_000_000
    window_keys: int = 10_000
    join_records: int = 1_000_000
    join_keys: int = 10_000
    interval_records: int = 1_000_000
    changelog_records: int = 300_000
    changelog_keys: int = 20_000
    rank_records: int = 300_000
    rank_keys: int = 10_000
    delivery_records: int = 600_000
    latency_seconds: int = 20
    interactive_queries: int = 5
    state_seconds: int = 600
    keys_many: int = 1_000_000
    replay_records: int = 10_000_000
    kinesis_records: int = 100_000
    postgresql_rows: int = 500_000
    codec_records: int = 500_000
    table_rows: int = 1_000_000
    upserted_rows: int = 1_000_000


QUICK = Sizes(
    projection_records=300_000,
    window_records=300_000,
    join_records=200_000,
    interval_records=200_000,
    changelog_records=100_000,
    rank_records=100_000,
    delivery_records=300_000,
    latency_seconds=8,
    interactive_queries=3,
    state_seconds=90,
    keys_many=300_000,
    replay_records=3_000_000,
    kinesis_records=40_000,
    postgresql_rows=200_000,
    codec_records=200_000,
    table_rows=300_000,
    upserted_rows=200_000,
)
