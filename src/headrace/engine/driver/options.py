"""Options of a driver process: JSON on its command line, never a secret."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from headrace.engine.kubernetes.pods import PodOptions
from headrace.engine.pool_properties import Cluster


class Outlive(BaseModel):
    """Options of a driver that outlives its server."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    folder: Path | None = Field(
        None,
        description="The folder of a process on the server's machine (`engine.driver_folder`); a pod has none.",
    )
    epoch: int = Field(description="The epoch of the server that has started the driver.")
    orphan_s: float = Field(description="Seconds for which the driver waits for its next server.")


class DriverOptions(BaseModel):
    """The options; times are milliseconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pool: str = Field("default_pool", description="The compute pool's name, for display.")
    work_dir: Path = Field(description="A folder for scratch files, which are deleted with the process.")
    warm_up: bool = Field(True, description="Whether to warm up before the first query.")
    spark_master: str = "local[32]"
    driver_host: str = Field("127.0.0.1", description="The driver's address for the workers of a cluster.")
    worker_python: str | None = Field(
        None, description="The path of Python on the workers of a cluster; without, their tasks run none."
    )
    cluster: Cluster | None = Field(
        None, description="Executors on a cluster; without, the pool takes all of a cluster."
    )
    executors_timeout_ms: int = Field(
        120_000, description="The longest wait for the executors of a standalone cluster."
    )
    tasks_timeout_ms: int = Field(
        60_000, description="The longest wait for the tasks that check the executors of a cluster."
    )
    outlive: Outlive | None = Field(None, description="Without, the driver ends with its server.")
    pods: PodOptions | None = Field(None, description="Facts about the driver's pod, on Kubernetes.")
    checkpoints: str | None = Field(
        None,
        description="The folder of checkpoints, which the workers of a cluster must share, or a folder of S3.",
    )
    driver_memory_mb: int = 2048
    shuffle_partitions: int = 2
    small_batch_records: int = Field(
        2000,
        description=(
            "Records up to which a micro-batch runs as one task. The number must be known before the "
            "batch is read."
        ),
    )
    progress_interval_ms: int = 1000
    scale_interval_ms: int = Field(
        5000, description="The time between two readings of the load that a number of executors follows."
    )
    records_per_batch: int = Field(
        200_000, description="Most records that one micro-batch reads from one source."
    )
    interactive_records_per_batch: int = Field(10_000, description="The same for an interactive query.")
    java_options: str = Field(
        "-XX:+UseParallelGC -XX:NewRatio=4",
        description="Options of the JVM, such as its garbage collector. By default its young generation "
        "grows to a third of the heap, nearly all of it garbage, and never shrinks.",
    )
    spark_options: dict[str, str] = Field(default_factory=dict, description="Further Spark settings.")
