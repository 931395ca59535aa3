"""A driver process without Spark that outlives its server: the real connection and service, and queries that a script runs.

The name of a query's first entity selects what it does: `runs`; `fails` as soon as there is a file of that name; `view` (applies one epoch
after the other); `reads` (for a reader). Each query appends a line to `batches-<id>` for each of its batches. Every event is a line of the
journal, as of `fake_driver`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from headrace.engine.checkpoint_copy import Border
from headrace.engine.driver.__main__ import _channel
from headrace.engine.driver.channel import ChannelClosedError
from headrace.engine.driver.options import DriverOptions
from headrace.engine.driver.outliving import OutlivingChannel, hold_lock
from headrace.engine.driver.service import DriverService
from headrace.engine.protocol import (
    ApplyView,
    QueryEnded,
    QueryProgress,
    QueryStarted,
    Ready,
    Rows,
    StartQuery,
)


class ScriptedQuery:
    """The interface of `RunningQuery`."""

    def __init__(self, service: ScriptedService, start: StartQuery) -> None:
        self.id, self.generation = start.query_id, start.generation
        self.was_started = self.reported = False
        self.is_interactive = start.plan.sink.step == "write_results"
        self._service = service
        self._start = start
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        [self._what] = start.plan.steps[0].entity  # type: ignore[union-attr]

    def start(self, *, after: Any = None) -> None:
        self._after = after
        self._thread.start()

    def stop(self) -> None:
        self._service.note("stop", id=self.id)
        self._stopping.set()

    def join(self, timeout: float) -> bool:
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def copy_checkpoint(self, _target: Path, *, hold: bool) -> Border:
        self._service.note("held" if hold else "copied", id=self.id)
        return Border(1, is_interrupted=False)

    def release(self) -> None:
        pass

    def report_again(self) -> None:
        pass

    def limit_planning(self) -> None:
        pass

    def look_at_stores(self, _watch: object) -> None:
        pass

    def progress(self) -> QueryProgress | None:
        return None

    def _run(self) -> None:
        if self._after is not None:
            self._after.stop()
            self._after.join(60)
        self._service.note("start", id=self.id, generation=self.generation)
        self.was_started = True
        channel = self._service.channel
        channel.send(QueryStarted(query_id=self.id, generation=self.generation))
        error: dict[str, Any] = {}
        batch = 0
        try:
            while not self._stopping.wait(0.02) and not error:
                error = self._batch(batch)
                batch += 1
        except ChannelClosedError:
            self._service.note("closed", id=self.id)
        self._service._forget(self)  # type: ignore[arg-type]
        self.reported = True
        self._service.note("end", id=self.id)
        channel.send(QueryEnded(query_id=self.id, generation=self.generation, **error))

    def _batch(self, batch: int) -> dict[str, Any]:
        channel, folder = self._service.channel, self._service.folder
        if self._what == "fails" and (folder / "fails").exists():
            return {"error": "a user error", "sqlstate": "22P02", "domain": "user"}
        if self._what == "view":
            view = self._start.plan.steps[-1].view  # type: ignore[union-attr]
            epoch = {"query_id": self.id, "view": view, "epoch": batch, "key_columns": ["k"]}
            payload = (folder / "epoch.arrow").read_bytes()
            channel.ask(
                lambda sequence: ApplyView(sequence=sequence, **epoch), payload, stopped=self._stopping
            )
        if self._what == "reads":
            channel.ask(
                lambda sequence: Rows(sequence=sequence, query_id=self.id, batch_id=batch),
                b'{"cells": [["1"]]}',
                stopped=self._stopping,
            )
        with (folder / f"batches-{self.id}").open("a") as out:
            out.write(f"{batch}\n")
        progress = {"input_rows": 1, "input_rows_per_second": 1.0, "batch_duration_ms": 1}
        channel.send(QueryProgress(query_id=self.id, batch_id=batch, **progress))
        return {}


class ScriptedService(DriverService):
    """The real service over scripted queries."""

    def __init__(self, channel: OutlivingChannel, options: DriverOptions, journal: Path) -> None:
        super().__init__(SimpleNamespace(version="none"), channel, options)  # type: ignore[arg-type]
        self.channel = channel
        self.folder = journal.parent
        self._journal = journal

    def note(self, kind: str, **values: object) -> None:
        with self._journal.open("a") as out:
            out.write(json.dumps({"type": kind, "pid": os.getpid(), "at": time.monotonic(), **values}) + "\n")

    def _made(self, message: StartQuery) -> Any:
        return ScriptedQuery(self, message)

    def _report_slots(self) -> None:
        pass

    def _measure_tasks(self) -> None:
        """Measure nothing: there is no Spark."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--journal", type=Path, required=True)
    servers = parser.add_mutually_exclusive_group(required=True)
    servers.add_argument("--socket", type=Path)
    servers.add_argument("--server")
    parser.add_argument("--credentials", type=Path)
    parser.add_argument("--options", required=True)
    arguments = parser.parse_args()
    options = DriverOptions.model_validate(json.loads(arguments.options))
    serving = threading.Event()
    channel = _channel(arguments, options, serving)
    assert isinstance(channel, OutlivingChannel)
    assert options.outlive is not None
    if options.outlive.folder is not None:
        hold_lock(options.outlive.folder)
    service = ScriptedService(channel, options, arguments.journal)
    service.note("ready", options=json.loads(arguments.options))
    channel.send(Ready(pid=os.getpid(), spark_version="none", start_ms=1))
    serving.set()
    # As the real one does.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit())
    try:
        stopping = service.run()
    except SystemExit:
        stopping = True
    if stopping:
        service.stop_all(10)
    service.note("exit")
    os._exit(0)


if __name__ == "__main__":
    main()
