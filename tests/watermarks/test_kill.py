"""kill -9 in the middle of a batch, and on from the checkpoint."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from harness.kafka import KafkaClient
from harness.patience import PATIENCE_S
from tests.watermarks.streams import EPOCH, counted, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

HOUR = 3600
ROOT = Path(__file__).resolve().parents[2]
ROWS = (range(0, 6000, 10), range(-HOUR, 6000 - HOUR, 10), range(0, 600, 10))


def start(kafka: KafkaClient, topic: str, folder: Path) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "tests.watermarks.counting_query",
        kafka.bootstrap,
        topic,
        str(len(ROWS)),
    ]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [*command, str(folder)], cwd=ROOT, stdout=log, stderr=log, start_new_session=True
        )


def kill_in_batch(process: subprocess.Popen[bytes], checkpoint: Path, batch: int) -> None:
    """Kills Python and its JVM while `batch` is planned and not committed."""
    offsets, commit = checkpoint / "offsets" / str(batch), checkpoint / "commits" / str(batch)
    try:
        wait_for(lambda: offsets.exists() or process.poll() is not None, f"batch {batch} to begin")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert offsets.exists(), f"the query ended before batch {batch}"
    assert not commit.exists(), f"batch {batch} was over before the kill"


def result(folder: Path) -> Counter[int]:
    """Window start -> rows of the files that the sink's log names: what a reader of the sink sees."""
    windows: Counter[int] = Counter()
    log = folder / "_spark_metadata"
    names = {
        Path(json.loads(line)["path"]).name
        for entry in log.iterdir()
        if not entry.name.startswith(".")
        for line in entry.read_text().splitlines()[1:]
    }
    for name in sorted(names):
        for line in (folder / name).read_text().splitlines():
            row = json.loads(line)
            assert row["start"] not in windows, "a window came out twice"
            windows[row["start"]] = row["rows"]
    return windows


@pytest.mark.faults  # tests/driver/test_exactly_once.py kills a driver with a window in `make test`
def test_after_a_kill_inside_a_batch_every_window_is_there_once_and_right(
    kafka: KafkaClient, seed: str, tmp_path: Path
) -> None:
    topic = f"kill-{seed}"
    kafka.create(topic, partitions=len(ROWS))
    for partition, seconds in enumerate(ROWS):
        kafka.produce(
            topic, [("k", json.dumps({"ts": EPOCH + second})) for second in seconds], partition=partition
        )
    kill_in_batch(start(kafka, topic, tmp_path), tmp_path / "checkpoint", 3)
    last = start(kafka, topic, tmp_path)
    try:
        assert last.wait(PATIENCE_S) == 0, (tmp_path / "log").read_text()[-3000:]
    finally:
        if last.poll() is None:
            os.killpg(last.pid, signal.SIGKILL)
            last.wait()
    assert result(tmp_path / "result") == counted(*ROWS)
