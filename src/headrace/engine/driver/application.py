"""A plan of several parts: as many streaming queries, which the server sees as one, that start, stop and fail together.

See docs/adr/0037.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headrace.connectors.checkpoint_store import store_at
from headrace.engine.checkpoint_copy import PARTS, Border, border, no_batch, too_slow
from headrace.engine.driver.channel import Channel
from headrace.engine.driver.options import DriverOptions
from headrace.engine.driver.query import EARLIER_RUN_S, Run, RunningQuery
from headrace.engine.driver.stores import StoreWatch
from headrace.engine.protocol import (
    HOLD_S,
    SUMMED,
    Ack,
    ApplyView,
    Message,
    QueryEnded,
    QueryProgress,
    QueryStarted,
    QueryWaits,
    Rows,
    StartQuery,
)
from headrace.planner.physical import SparkPlan


class RunningApplication:
    """The parts of one plan, with the interface of `RunningQuery`.

    Each part has a checkpoint inside that of the application, and a name under which it marks its output. Both are the same after
    a restart.
    """

    def __init__(
        self,
        session: SparkSession,
        start: StartQuery,
        channel: Channel,
        *,
        options: DriverOptions,
        ended: Callable[[RunningApplication], None],
    ) -> None:
        self.id = start.query_id
        self.generation = start.generation
        self._channel = channel
        self._ended = ended
        self._lock = threading.Lock()
        self._reported = False
        self._started: set[str] = set()
        self._waiting: dict[str, QueryWaits] = {}
        self._progress: dict[str, QueryProgress] = {}
        self._end: QueryEnded | None = None
        self._parts = [
            RunningQuery(
                session,
                _part_of(start, part),
                _PartChannel(channel, self._relay),
                options=options,
                ended=lambda _: None,
                measured_as=start.query_id,
            )
            for part in start.plan.parts()
        ]

    @property
    def is_interactive(self) -> bool:
        """False: an application has no reader."""
        return False

    @property
    def reported(self) -> bool:
        """True if the end was reported to the server."""
        return self._reported

    @property
    def was_started(self) -> bool:
        """True if the start of any part has been requested of Spark."""
        return any(part.was_started for part in self._parts)

    def start(self, *, after: Run | None = None) -> None:
        """Returns at once; with `after` that earlier run is stopped first."""
        with self._lock:  # what the first one says is heard when all are there
            for part in self._parts:
                part.start(after=after)

    def stop(self) -> None:
        """Asks all parts to end; `QueryEnded` follows when they have."""
        _at_once([part.stop for part in self._parts])

    def copy_checkpoint(self, target: Path, *, hold: bool) -> Border:
        """Copy the checkpoint of each part that has finished a batch, as for a query.

        Each part waits at its border until all are copied. So none has read in its copy what another part has written after its own.
        Returns the sum of the borders. Raises UserError 3E003 if no part has finished a batch, and 57014 if one does not end its batch
        before another one has waited too long.
        """
        parts = [part for part in self._parts if border(part.checkpoint) is not None]
        if not parts:
            raise no_batch(self.id)
        waiting_until = time.monotonic() + HOLD_S

        def copied(part: RunningQuery) -> Border:
            return part.copy_checkpoint(target / PARTS / Path(part.checkpoint.uri).name, hold=True)

        is_held = False
        try:
            with ThreadPoolExecutor(len(parts), thread_name_prefix=f"copy-{self.id}") as threads:
                borders = list(threads.map(copied, parts))
            if time.monotonic() > waiting_until:
                raise too_slow(self.id)
            is_held = hold
        finally:
            if not is_held:
                self.release()
        return Border(sum(last.batch for last in borders), any(last.is_interrupted for last in borders))

    def release(self) -> None:
        """Continue after `copy_checkpoint` with `hold`."""
        for part in self._parts:
            part.release()

    def look_at_stores(self, watch: StoreWatch) -> None:
        """Check the stores of each part, as for a query."""
        for part in self._parts:
            part.look_at_stores(watch)

    def report_again(self) -> None:
        """Report which parts make no progress, to a server that does not know it yet."""
        for part in self._parts:
            part.report_again()

    def limit_planning(self) -> None:
        """Limit the planning of each part, which has its own time."""
        for part in self._parts:
            part.limit_planning()

    def join(self, timeout: float) -> bool:
        """True if all parts have ended, each within `timeout` seconds."""
        over = [part.join(timeout) for part in self._parts]
        return all(over)

    def progress(self) -> QueryProgress | None:
        """Return the progress of all parts' batches since the last call; None without a batch."""
        new = [progress for part in self._parts if (progress := part.progress()) is not None]
        return self._together(new) if new else None

    def _relay(self, message: Message) -> None:
        """Translate a part's message to the server into one of the whole query."""
        match message:
            case QueryStarted():
                with self._lock:
                    self._started.add(message.query_id)
                    all_run = len(self._started) == len(self._parts)
                if all_run:
                    self._channel.send(message.model_copy(update={"query_id": self.id}))
            case QueryWaits():
                with self._lock:
                    self._waiting[message.query_id] = message
                    reported = next(
                        (waiting for waiting in self._waiting.values() if waiting.reason), message
                    )
                self._channel.send(reported.model_copy(update={"query_id": self.id}))
            case QueryProgress():
                self._channel.send(self._together([message]))
            case QueryEnded():
                with self._lock:
                    first = self._end is None
                    if self._end is None or (message.error is not None and self._end.error is None):
                        self._end = message
                if first:
                    threading.Thread(target=self._finish, name=f"end-{self.id}", daemon=True).start()

    def _together(self, new: list[QueryProgress]) -> QueryProgress:
        with self._lock:
            self._progress |= {part.query_id: part for part in new}
            return together(self.id, new, list(self._progress.values()))

    def _finish(self) -> None:
        """End the other parts, and report the first one's failure. A part that cannot be ended is not waited for."""
        self.stop()
        over = self.join(EARLIER_RUN_S)
        if over:
            # Forgotten first, as a query is.
            self._ended(self)
        self._reported = True
        if self._end is not None:
            self._channel.send(self._end.model_copy(update={"query_id": self.id}))
        if not over:
            for part in self._parts:
                part.join(None)
            self._ended(self)


class _PartChannel:
    """The channel of one part: forwards its rows to the server, and keeps its reports for the application."""

    def __init__(self, channel: Channel, hear: Callable[[Message], None]) -> None:
        self._channel = channel
        self._relay = hear

    def send(self, message: Message) -> None:
        self._relay(message)

    def ask(
        self, make: Callable[[int], Rows | ApplyView], payload: bytes, *, stopped: threading.Event
    ) -> Ack:
        return self._channel.ask(make, payload, stopped=stopped)


def _part_of(start: StartQuery, plan: SparkPlan) -> StartQuery:
    name = plan.sink.id
    checkpoint = store_at(start.checkpoint).at(PARTS, name).uri if start.checkpoint else ""
    changed = {"query_id": f"{start.query_id}-{name}", "checkpoint": checkpoint, "plan": plan}
    return start.model_copy(update=changed)


def together(query_id: str, new: list[QueryProgress], last: list[QueryProgress]) -> QueryProgress:
    """Return the progress of several parts as one: rows of `new` are summed, the rest is each part's `last`.

    The watermark is the earliest; `batch_id` is the sum of the parts' own, which grows with each of them.
    """
    watermarks = [part.watermark_ms for part in last if part.watermark_ms is not None]
    lag: dict[str, dict[str, int]] = {}
    for part in last:
        for entity, splits in part.lag.items():
            known = lag.setdefault(entity, {})
            for split, behind in splits.items():
                known[split] = max(behind, known.get(split, 0))

    def summed(name: str, parts: list[QueryProgress]) -> int:
        return sum(getattr(part, name) for part in parts)

    def part_name(part: QueryProgress) -> str:
        return part.query_id.removeprefix(f"{query_id}-")

    def known_sum(name: str) -> Any:
        """Return the sum over `new`; None if a part does not know its own."""
        is_known = all(getattr(part, name) is not None for part in last)
        return sum(getattr(part, name) for part in new) if is_known else None

    outputs = [part.output_rows for part in new if part.output_rows is not None]
    return QueryProgress(
        query_id=query_id,
        batch_id=summed("batch_id", last),
        input_rows_per_second=sum(part.input_rows_per_second for part in new),
        batch_duration_ms=max(part.batch_duration_ms for part in new),
        watermark_ms=min(watermarks, default=None),
        state_rows=summed("state_rows", last),
        state_bytes=summed("state_bytes", last),
        state_file_bytes=summed("state_file_bytes", last),
        output_rows=sum(outputs) if outputs else None,
        input_bytes=known_sum("input_bytes"),
        input_bytes_per_second=known_sum("input_bytes_per_second"),
        output_bytes=known_sum("output_bytes"),
        output_bytes_per_second=known_sum("output_bytes_per_second"),
        # A part without a batch has no checkpoint that could be old.
        committed_at_ms=min((part.committed_at_ms for part in last if part.committed_at_ms), default=None),
        checkpoint_bytes=sum(part.checkpoint_bytes or 0 for part in last),
        operators={
            f"{part_name(part)} {operator}": state
            for part in last
            for operator, state in part.operators.items()
        },
        steps=[
            step.model_copy(update={"step": f"{part_name(part)} {step.step}"})
            for part in new
            for step in part.steps
        ],
        lag=lag,
        backlog_bytes={entity: size for part in last for entity, size in part.backlog_bytes.items()},
        latencies_ms=[latency for part in new for latency in part.latencies_ms],
        detail={"parts": {part_name(part): part.detail for part in last}},
        **{field: summed(field, new) for field in SUMMED},
    )


def _at_once(calls: Iterable[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=call, daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
