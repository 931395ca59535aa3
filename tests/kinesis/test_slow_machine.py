"""A machine that is too busy to start a Python process in the ten seconds that Spark waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.kinesis import KinesisClient
from headrace.engine.protocol import QueryWaits
from headrace.planner.physical import DecodeRows, ReadEntity
from tests.driver.control import DriverControl
from tests.driver.plans import STORE, columns, plan, results
from tests.kinesis.conftest import Store

pytestmark = [pytest.mark.spark, pytest.mark.prove]

FIRST_IS_SLOW = """
import pathlib, sys, time
if "pyspark.sql.streaming.python_streaming_source_runner" in sys.orig_argv:
    started = pathlib.Path({started!r})
    if not started.exists():
        started.touch()
        time.sleep(12)
"""


def test_a_reader_waits_for_a_source_that_begins_slowly(
    kinesis: KinesisClient, store: Store, seed: str, tmp_path: Path
) -> None:
    kinesis.create(stream := f"slow_{seed}")
    kinesis.put(stream, [("k", '{"n":1}')])
    (modules := tmp_path / "modules").mkdir()
    (modules / "sitecustomize.py").write_text(FIRST_IS_SLOW.format(started=str(tmp_path / "started")))
    control = DriverControl(tmp_path / "driver", environment={"PYTHONPATH": str(modules)}, warm_up=False)
    steps = plan(
        ReadEntity(id="a0", store=STORE, connector="kinesis", entity=(stream,), starting_position="earliest"),
        DecodeRows(id="a", input="a0", columns=columns("n BIGINT")),
        results("a", "n BIGINT", limit=1),
    )
    try:
        query = control.start(steps, checkpoint="", stores={STORE: store})
        ended = control.ended(query)
        assert (control.rows(query, 1), ended.error) == ([["1"]], None)
        assert (tmp_path / "started").exists(), "no process was slow"
        waits, *_ = control.of(QueryWaits, query)
        assert (waits.sqlstate, waits.store) == ("53000", None)
        assert "the Python process that reads the query's source has not started" in str(waits.reason)
    finally:
        control.close()
