"""Options of a driver process: JSON on its command line, never a secret."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class DriverOptions(BaseModel):
    """The options; times are milliseconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pool: str = Field("default_pool", description="The compute pool's name, for people.")
    work_dir: Path = Field(description="A folder for scratch files; nothing in it outlives the process.")
    warm_up: bool = Field(
        True, description="Whether to be warm before the first query; not for one that has waited already."
    )
    spark_master: str = "local[32]"
    driver_memory_mb: int = 2048
    shuffle_partitions: int = 2
    small_batch_records: int = Field(
        2000,
        description="A micro-batch of at most so many records, known before it is read, is one task and not a stage for each shuffle.",
    )
    progress_interval_ms: int = 1000
    records_per_batch: int = Field(
        200_000, description="Records that one micro-batch reads at most from one source."
    )
    interactive_records_per_batch: int = Field(
        10_000, description="The same for a query whose rows go to a person."
    )
    java_options: str = Field(
        "-XX:+UseParallelGC -XX:NewRatio=4",
        description="Options of the JVM: its garbage collector, and what else is wanted. Unless it is told otherwise, its young "
        "generation grows to a third of the heap, all but a few MiB of it garbage, and is not given back.",
    )
    spark_options: dict[str, str] = Field(default_factory=dict, description="Further Spark settings.")
