"""Runs inside Flink's own Python: takes one JSON request a line, answers each with one JSON line.

Requests: `{"do": "execute", "sql": …}`, `{"do": "columns", "sql": …}` (names and types of a query's result),
`{"do": "explain", "sql": …}` (the optimized plan of a query), `{"do": "last", "sql": …}` (the last row of a bounded query),
`{"do": "start", "sql": …}` (an INSERT; gives the job's number), `{"do": "state" | "wait" | "cancel", "job": …}`.
An answer is `{"answer": …}`, or `{"error": …}` with what Flink said.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment


class Worker:
    """A table environment; each job that it starts has a small cluster of its own in this process's JVM."""

    def __init__(self, settings: dict[str, str]) -> None:
        configuration = Configuration()
        for name, value in settings.items():
            configuration.set_string(name, value)
        environment = EnvironmentSettings.new_instance().in_streaming_mode()
        self._tables = TableEnvironment.create(environment.with_configuration(configuration).build())
        self._jobs: list[Any] = []
        self._requests: dict[str, Callable[..., Any]] = {
            "execute": self.execute,
            "columns": self.columns,
            "explain": self.explain,
            "last": self.last,
            "start": self.start,
            "state": self.state,
            "wait": self.wait,
            "cancel": self.cancel,
        }

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request, or its error, which the caller judges."""
        try:
            return {"answer": self._requests[request.pop("do")](**request)}
        except Exception as error:  # noqa: BLE001 - whatever it was, the other side gets its text
            return {"error": _said(error)}

    def execute(self, sql: str) -> None:
        self._tables.execute_sql(sql).wait()

    def columns(self, sql: str) -> list[tuple[str, str]]:
        schema = self._tables.sql_query(sql)._j_table.getResolvedSchema()
        return [
            (column.getName(), column.getDataType().getLogicalType().asSerializableString())
            for column in schema.getColumns()
        ]

    def explain(self, sql: str) -> str:
        return self._tables.sql_query(sql).explain().partition("== Optimized Execution Plan ==")[2]

    def last(self, sql: str) -> list[Any]:
        row: list[Any] = []
        with self._tables.execute_sql(sql).collect() as rows:
            for each in rows:
                # What a change takes back comes before what takes its place.
                row = list(each)
        return row

    def start(self, sql: str) -> int:
        self._jobs.append(self._tables.execute_sql(sql))
        return len(self._jobs) - 1

    def state(self, job: int) -> str:
        return str(self._jobs[job].get_job_client().get_job_status().result().name)

    def wait(self, job: int, within_s: float) -> None:
        self._jobs[job].wait(int(within_s * 1000))

    def cancel(self, job: int) -> None:
        self._jobs[job].get_job_client().cancel().result()


def _said(error: Exception) -> str:
    """Return the last cause in Java's trace, which is the actual error; a reader of a report does not need the frames."""
    lines = [line for line in str(error).splitlines() if line.startswith(("Caused by:", ": "))]
    return (lines[-1].lstrip(": ") if lines else str(error) or repr(error))[:600]


def main() -> None:
    # What libraries print must not get between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = Worker(json.loads(sys.argv[1]))
    for line in sys.stdin:
        print(json.dumps(worker.answer(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
