"""`headrace test`, as a user runs it: the examples pass, and a test that fails shows why."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.patience import PATIENCE_S

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ROOT = Path(__file__).resolve().parents[2]

# The name of the database and of the topic is that of the file before: it must be gone.
FAILS = """\
statement ok
CREATE STREAM orders (id INTEGER) WITH ('topic.partitions' = 1, 'topic.replicas' = 1, 'value.format' = JSON);

query
LIST STREAMS;
----
other
"""


def test_the_examples_pass_and_a_failure_is_shown(tmp_path: Path) -> None:
    (tmp_path / "fails.slt").write_text(FAILS)
    junit = tmp_path / "junit.xml"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "headrace.cli", "test", "examples", str(tmp_path)),
            *("--timeout", str(PATIENCE_S), "--junit", str(junit)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE_S,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    lines = [line.partition(" (")[0] for line in done.stdout.splitlines()]
    assert lines[:3] == [
        "passed examples/tests/plans.slt",
        "passed examples/tests/sales.slt",
        f"FAILED {tmp_path}/fails.slt",
    ]
    assert "  fails.slt:4: query" in lines
    assert "    - other" in lines
    assert lines[-1] == "2 passed, 1 failed"
    assert len(list(ElementTree.fromstring(junit.read_bytes()).iter("testcase"))) == 3  # noqa: S314 - our own file
