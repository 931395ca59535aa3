"""Cost of metrics in a driver, as processor time: `python -m benchmarks.observation`.

- Bytes of records: the steps of a projection and of a GROUP BY decode and encode the same records in one driver, with and without what
  counts the bytes, in turns: A B, B A, and so on. The records are in memory and the rows are dropped, so that the ratio is an upper
  bound: a query also reads from a store and writes to one. Processor times are those of the tasks' threads, without the compiler.
- Rows of steps: the walk over the plan of a batch that has ended.
- Samples: a reading of the progress of a query with ten batches since the last one. A driver reads once a second.

Other work on the machine hardly changes these figures.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import DataFrame

from headrace.connectors.checkpoint_store import store_at
from headrace.connectors.kafka.spark import RECORDS
from headrace.core.schema import Column
from headrace.core.types import BIGINT, DOUBLE, VARCHAR
from headrace.engine.driver.jvm import jvm
from headrace.engine.driver.options import DriverOptions
from headrace.engine.driver.progress import ProgressReader
from headrace.engine.driver.session import start_session
from headrace.formats.base import DecodeSpec, EncodeSpec
from headrace.formats.json import Json
from headrace.formats.spark import decode, encode, measured

_COLUMNS = (
    Column("at", BIGINT),
    Column("id", BIGINT),
    Column("item", VARCHAR),
    Column("price", DOUBLE),
    Column("note", VARCHAR),
)
_VALUE = (
    """concat('{"at":', 1700000000000 + id, ',"id":', id, ',"item":"item-', id % 10000, '","price":', id % 100, """
    """'.5,"note":"a record of about one hundred and twenty bytes"}')"""
)
_STORED = (
    "CAST(NULL AS BINARY) AS key",
    f"CAST({_VALUE} AS BINARY) AS value",
    "'orders' AS topic",
    "CAST(id % 2 AS INT) AS partition",
    "id AS offset",
    "timestamp_millis(1700000000000 + id) AS timestamp",
    "0 AS timestampType",
)
"""The columns of Spark's source for Kafka."""
_SHAPES = {
    "projection": "SELECT at, id, upper(item) AS item, price * 2 AS price, note FROM orders WHERE id >= 0",
    "group_by": (
        "SELECT id % 10000 AS id, count(*) AS at, sum(price) AS price, '' AS item, '' AS note FROM orders GROUP BY id % 10000"
    ),
}
_BATCHES = 10


class Bench:
    """A driver's session with the records."""

    def __init__(self, folder: Path, records: int) -> None:
        self._folder, self._records = folder, records
        self._session = start_session(DriverOptions(work_dir=folder, spark_master="local[1]"))
        (self._jvm,) = [each for each in psutil.Process().children(recursive=True) if each.name() == "java"]
        self._stored = self._session.range(0, records, 1, 1).selectExpr(*_STORED).persist()
        self._stored.count()

    def plan(self, shape: str, stored: DataFrame, *, counts: bool) -> DataFrame:
        """Return the records that a shape writes."""
        records = stored.selectExpr(*RECORDS)
        records = measured(records, "input_bytes") if counts else records
        decode(records, DecodeSpec(_COLUMNS, Json(), timestamp="at")).createOrReplaceTempView("orders")
        encoded = encode(self._session.sql(_SHAPES[shape]), EncodeSpec(_COLUMNS, Json()))
        return measured(encoded, "output_bytes") if counts else encoded

    def records_us(self, shape: str, *, counts: bool) -> float:
        """Return the µs of processor time of a record."""
        plan = self.plan(shape, self._stored, counts=counts)
        before = self._task_seconds()
        plan.write.format("noop").mode("overwrite").save()
        return (self._task_seconds() - before) / self._records * 1e6

    def walk_ms(self) -> float:
        """Return the ms for the plan of a batch, with those of the call from Python."""
        plan = self.plan("projection", self._stored, counts=True)._jdf.queryExecution().executedPlan()
        steps, run = (
            jvm(self._session).io.headrace.spark.StepRows,
            jvm(self._session).java.util.UUID.randomUUID(),
        )
        numbers = iter(range(10**6))
        spent = self._spent_ms(lambda: steps.add(run, next(numbers), plan))
        steps.forget(run)
        return spent

    def sample_ms(self) -> float:
        """Return the ms for a reading of ten batches, of the JVM and of Python together."""
        stream = (
            self._session.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", "100")
            .load()
            .selectExpr("value AS id")
            .selectExpr(*_STORED)
        )
        checkpoint = self._folder / "checkpoint"
        query = (
            self.plan("projection", stream, counts=True)
            .writeStream.format("noop")
            .option("checkpointLocation", str(checkpoint))
            .start()
        )
        while len(query.recentProgress) < _BATCHES:
            time.sleep(0.1)
        query.stop()
        reader = ProgressReader(
            "id",
            query,
            self._session,
            windowed=False,
            real_time=False,
            backlog={},
            measures=frozenset(("input_bytes", "output_bytes")),
            checkpoint=store_at(str(checkpoint)),
        )

        def read() -> None:
            reader._last = (-1, "")
            reader.read()

        return self._spent_ms(read)

    def _spent_ms(self, call: Callable[[], object]) -> float:
        for _ in range(500):
            call()
        before, count = self._all_seconds(), 500
        for _ in range(count):
            call()
        return (self._all_seconds() - before) / count * 1000

    def _all_seconds(self) -> float:
        return time.process_time() + float(sum(self._jvm.cpu_times()[:2]))

    def _task_seconds(self) -> float:
        tick, ticks = os.sysconf("SC_CLK_TCK"), 0
        for thread in Path(f"/proc/{self._jvm.pid}/task").iterdir():
            name, _, rest = (thread / "stat").read_text().rpartition(")")
            if "Executor task" in name:
                ticks += sum(map(int, rest.split()[11:13]))
        return ticks / tick


def main() -> None:
    """Print the runs on the way, and the figures as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--pairs", type=int, default=8)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), options.records)
        report: dict[str, Any] = {shape: _compared(bench, shape, options.pairs) for shape in _SHAPES}
        report["steps_of_a_batch_ms"] = round(bench.walk_ms(), 3)
        report["sample_ms"] = round(bench.sample_ms(), 3)
    print(json.dumps({"load": os.getloadavg(), **report}, indent=2))


def _compared(bench: Bench, shape: str, pairs: int) -> dict[str, Any]:
    runs: dict[bool, list[float]] = {True: [], False: []}
    for number in range(-3, pairs):
        for counts in (number % 2 == 0, number % 2 != 0):
            spent = bench.records_us(shape, counts=counts)
            print(shape, number, "with" if counts else "without", round(spent, 3), flush=True)
            # The first runs compile.
            if number >= 0:
                runs[counts].append(spent)
    return {
        "with_us": [round(each, 2) for each in runs[True]],
        "without_us": [round(each, 2) for each in runs[False]],
        "ratio_of_medians": round(statistics.median(runs[True]) / statistics.median(runs[False]), 3),
        "ratio_of_sums": round(sum(runs[True]) / sum(runs[False]), 3),
    }


if __name__ == "__main__":
    main()
