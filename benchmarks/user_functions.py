"""Cost of a call of a user's function, without Spark: `python -m benchmarks.user_functions`.

Prints, for a scalar function in Java and in Python, by row and vectorized, the microseconds a row that caller and worker need together, at
several sizes of batches, and the seconds to the first answer of a worker.
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow

from harness.java_functions import functions_jar
from headrace.core.settings import Settings
from headrace.engine.functions.protocol import FunctionWorker
from headrace.engine.functions.runtime import FunctionRuntime
from headrace.planner.physical import UserFunction

BATCHES = (50, 1_000, 10_000)
ROWS, RUNS = 200_000, 5
PYTHON = b"""
def same(value):
    return value
"""
KINDS = {
    "java": ("Same", "scalar"),
    "python": ("same", "scalar"),
    "python_vectorized": ("same", "vectorized"),
}


def main() -> None:
    """Print the figures as JSON."""
    codes = {hashlib.sha256(code).hexdigest(): code for code in (functions_jar(), PYTHON)}
    java, python = codes
    figures: dict[str, Any] = {"load": os.getloadavg(), "cores": os.cpu_count()}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        runtime = FunctionRuntime(Settings(data_dir=Path(folder)), codes.get)
        stack.callback(runtime.close)
        for name, (entry, kind) in KINDS.items():
            is_java = name == "java"
            function = UserFunction(
                id=name,
                signature=name,
                digest=java if is_java else python,
                language="java" if is_java else "python",
                class_name=f"com.example.{entry}" if is_java else entry,
                kind=kind,  # type: ignore[arg-type]
                parameters=["BIGINT"],
                arguments=["BIGINT"],
                result="BIGINT",
            )
            started = time.monotonic()
            (lent,) = stack.enter_context(runtime.lent([function], name))
            worker = FunctionWorker(lent.socket)
            worker.declare(0, lent.functions[0].declaration, lent.timeout_s)
            _call(worker, 1, lent.timeout_s)
            figures[f"{name}_first_answer_s"] = round(time.monotonic() - started, 3)
            for size in BATCHES:
                runs = [_measured(worker, size, lent.timeout_s) for _ in range(RUNS + 1)][1:]
                figures[f"{name}_us_a_row_in_batches_of_{size}"] = round(statistics.median(runs), 3)
    print(json.dumps(figures, indent=2))


def _measured(worker: FunctionWorker, size: int, timeout_s: float) -> float:
    calls = max(ROWS // size // 10, 20)
    started = time.monotonic()
    for _ in range(calls):
        _call(worker, size, timeout_s)
    return (time.monotonic() - started) / calls / size * 1e6


def _call(worker: FunctionWorker, size: int, timeout_s: float) -> None:
    batch = pyarrow.RecordBatch.from_arrays([pyarrow.array(range(size), pyarrow.int64())], ["a0"])
    worker.call(0, batch, pyarrow.int64(), timeout_s)


if __name__ == "__main__":
    main()
