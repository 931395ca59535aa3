"""Cost of findings for the server, as processor time, without Spark: `python -m benchmarks.findings`.

Measures what the server does with the progress that a driver sends once a second for each query: from the bytes of the message to the sums
of the metrics and the findings. The query has a window and eight partitions, and ten minutes of readings behind it.
"""

from __future__ import annotations

import datetime
import json
import os
import statistics
import time

from headrace.catalog.objects import Query, QueryKind, QueryState
from headrace.core.names import RelationName
from headrace.engine.findings import Observations, Subject, findings
from headrace.engine.metrics import QueryMetrics
from headrace.engine.protocol import FRAME_HEADER, QueryProgress, StepRows, decode_message, encode_frame
from tests.plans.world import planned

_WINDOWS = (
    "CREATE CHANGELOG c AS SELECT window_start, window_end, COUNT(*) AS n FROM TUMBLE(flights, SIZE 1 HOUR) "
    "GROUP BY window_start, window_end"
)
_READINGS, _RUNS = 600, 5


def main() -> None:
    """Print the median of five runs as JSON."""
    runs = [_reading_ms() for _ in range(_RUNS)]
    print(json.dumps({"load": os.getloadavg(), "reading_ms": round(statistics.median(runs), 3)}, indent=2))


def _reading_ms() -> float:
    """Return the ms for the progress of a query of a window with eight partitions, after ten minutes of readings."""
    plan = planned(_WINDOWS)
    now = datetime.datetime.now(datetime.UTC)
    name = RelationName("d", "s", "r")
    query = Query(
        "id",
        None,
        1,
        QueryKind.INSERT_INTO,
        "INSERT …",
        plan.to_json(),
        name,
        (name,),
        "p",
        "sysadmin",
        now,
        now,
        actual_state=QueryState.RUNNING,
    )
    partitions = [
        {"entity": "flights", "partition": number, "maxEventTimeMs": 10**6 + number, "idle": False}
        for number in range(8)
    ]
    source = {"name": "flights", "delayMs": 0, "idleTimeoutMs": 0, "partitions": partitions}
    reading = QueryProgress(
        query_id="id",
        batch_id=1,
        input_rows=200_000,
        input_rows_per_second=1.0,
        batch_duration_ms=1,
        output_rows=1000,
        watermark_ms=10**6,
        lag={"flights": dict.fromkeys(map(str, range(8)), 10)},
        steps=[StepRows(step="WHERE a > 1", input_rows=200_000, output_rows=1000)],
        detail={"watermark": {"active": True, "sources": [source]}},
    )
    body = encode_frame(reading)[FRAME_HEADER.size :]
    observed, metrics = Observations(started=0.0), None
    for number in range(-_READINGS, _READINGS):
        if number == 0:
            before = time.process_time()
        message = decode_message(body)
        if not isinstance(message, QueryProgress):
            raise TypeError(f"expected progress, found {message.type}")
        metrics = QueryMetrics.after(metrics, message)
        observed.add(message, float(number + _READINGS))
        subject = Subject(query, plan, observed.copy(), metrics, float(number + _READINGS), 2**30, 2**30)
        findings(subject)
    return (time.process_time() - before) / _READINGS * 1000


if __name__ == "__main__":
    main()
