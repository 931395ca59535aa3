"""Files of Spark's logs in a bucket: of two drivers that write one, the second fails, and nothing is visible before it is complete."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.kinesis import SECRET_KEY
from harness.patience import PATIENCE_S
from harness.s3 import S3Client

pytestmark = pytest.mark.spark

# A process of its own, as a driver is.
_TWO_WRITERS = """
import sys
from pathlib import Path
from py4j.protocol import Py4JJavaError
from headrace.engine.driver.options import DriverOptions
from headrace.engine.driver.session import start_session

folder, work = sys.argv[1:]
options = DriverOptions(work_dir=Path(work), checkpoints=folder, warm_up=False, driver_memory_mb=512, spark_master="local[1]")
session = start_session(options)
jvm, settings = session._jvm, session._jsc.hadoopConfiguration()

def path(name):
    return jvm.org.apache.hadoop.fs.Path(f"{folder}/{name}")

def begin(name, replaces):
    files = jvm.io.headrace.spark.ConditionalCheckpointFiles(path("offsets"), settings)
    stream = files.createAtomic(path(name), replaces)
    return files, stream

def end(stream, text):
    stream.write(text.encode())
    try:
        stream.close()
        return "written"
    except Py4JJavaError as error:
        return error.java_exception.getClass().getSimpleName()

(files, one), (_, other), (_, cancelled) = (begin("offsets/0", False) for _ in range(3))
print("visible", files.exists(path("offsets/0")))
cancelled.write(b"cancelled")
cancelled.cancel()
print("cancelled", files.exists(path("offsets/0")))
print("one", end(one, "one"))
print("other", end(other, "other"))
for text in ("old", "new"):
    print(text, end(begin("state/1.zip", True)[1], text))
print("listed", [status.getPath().getName() for status in files.list(path("offsets"))])
print("missing", len(files.list(path("commits"))))
session.stop()
"""


@pytest.fixture(params=("s3", pytest.param("s3_mock", marks=pytest.mark.prove)))
def client(request: pytest.FixtureRequest) -> S3Client:
    stand_in: S3Client = request.getfixturevalue(request.param)
    return stand_in


def test_of_two_drivers_that_plan_a_batch_one_writes_it(client: S3Client, seed: str, tmp_path: Path) -> None:
    folder = f"s3://{client.bucket}/headrace/two_{seed}"
    result = subprocess.run(
        [sys.executable, "-c", _TWO_WRITERS, folder, str(tmp_path)],
        env={**os.environ, **client.checkpoints("headrace")},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    assert result.stdout.splitlines() == [
        "visible False",
        "cancelled False",
        "one written",
        "other FileAlreadyExistsException",
        "old written",
        "new written",
        "listed ['0']",
        "missing 0",
    ]
    key = folder.removeprefix(f"s3://{client.bucket}/")
    assert [client.get(f"{key}/{name}") for name in ("offsets/0", "state/1.zip")] == [b"one", b"new"]
    assert SECRET_KEY not in result.stderr
