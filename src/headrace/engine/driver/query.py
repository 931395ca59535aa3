"""Life cycle of a query in a driver: build, start, run, stop, and report the end."""

from __future__ import annotations

import logging
import threading
import time
import traceback
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from py4j.protocol import Py4JError
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headrace.connectors.checkpoint_store import CheckpointStore, store_at
from headrace.core.errors import ExternalError, HeadraceError, InternalError, UserError
from headrace.core.sqlstate import SqlState
from headrace.engine.checkpoint_copy import Border, copy_checkpoint, copy_failure
from headrace.engine.driver.backlog import Backlog
from headrace.engine.driver.border import BatchBorder
from headrace.engine.driver.builder import Build, build
from headrace.engine.driver.channel import ChannelClosedError, Outgoing
from headrace.engine.driver.checkpoint_damage import remove_unfinished
from headrace.engine.driver.failures import UNCLASSIFIED, Failure, began_slowly, classify, slow_begin
from headrace.engine.driver.identities import Identities
from headrace.engine.driver.jvm import jvm
from headrace.engine.driver.options import DriverOptions
from headrace.engine.driver.planning import PlanningTime
from headrace.engine.driver.progress import ProgressReader, measures
from headrace.engine.driver.sinks import SinkContext, insert_rows, send_answer, sink
from headrace.engine.driver.spool import clear_spool
from headrace.engine.driver.state_partitions import divide_state
from headrace.engine.driver.stores import StoreSilentError, StoreWatch, stores_of
from headrace.engine.driver.task_times import attribute_jobs
from headrace.engine.protocol import QueryEnded, QueryProgress, QueryStarted, QueryWaits, StartQuery
from headrace.planner.physical import AssignWatermark, OptimizeEntity, WriteResults, WriteRows

logger = logging.getLogger(__name__)

_JVM_END_S = 5.0
_STARTS_MAX = 3
"""How often a query is started on a machine too busy for Spark's wait for its sources' Python processes."""
EARLIER_RUN_S = 30.0
"""How long a new run waits for the end of the one before."""
_BORDER_S = 60.0
"""How long a copy of the checkpoint waits for the end of a batch."""


class Run(Protocol):
    """A run that must end before the next one of its query begins."""

    @property
    def was_started(self) -> bool:
        """True if its start has been requested of Spark."""
        ...

    def stop(self) -> None:
        """Ask it to end."""
        ...

    def join(self, timeout: float) -> bool:
        """True if it has ended within `timeout` seconds."""
        ...


class RunningQuery:
    """A plan as a streaming query, in a Spark session and a thread of its own."""

    def __init__(
        self,
        session: SparkSession,
        start: StartQuery,
        channel: Outgoing,
        *,
        options: DriverOptions,
        ended: Callable[[RunningQuery], None],
        measured_as: str = "",
    ) -> None:
        """`measured_as` is the query whose tasks those of a part of it are."""
        self.id = start.query_id
        self._measured_as = measured_as or start.query_id
        self._root = session
        self._start = start
        self._channel = channel
        self._options = options
        self._ended = ended
        self._query: StreamingQuery | None = None
        self._planning: PlanningTime | None = None
        self._stores = stores_of(start)
        self._silence: StoreSilentError | None = None
        self._slow_begin: ExternalError | None = None
        self._waiting_reason: str | None = None
        # Guards the two events after which another thread must know better than to act: Spark's start, and our report.
        self._lock = threading.Lock()
        self._was_started = False
        self._reported = False
        self._progress: ProgressReader | None = None
        self._identities: Identities | None = None
        checkpoint = store_at(
            start.checkpoint or str(options.work_dir / "tmp" / f"checkpoint-{uuid.uuid4()}")
        )
        stopping = threading.Event()
        self._sink = SinkContext(
            channel,
            start.query_id,
            checkpoint,
            BatchBorder(checkpoint, stopping),
            stopping,
            finish=self._finish,
            is_behind=self._is_behind,
        )
        self._thread = threading.Thread(target=self._run, name=f"query-{start.query_id}", daemon=True)

    @property
    def checkpoint(self) -> CheckpointStore:
        """The place of the query's progress and state."""
        return self._sink.checkpoint

    @property
    def generation(self) -> int:
        """The number of this start of the query."""
        return self._start.generation

    @property
    def is_interactive(self) -> bool:
        """True if it has a reader, with whom it ends."""
        return self._start.plan.sink.step == "write_results"

    @property
    def was_started(self) -> bool:
        """True if its start has been requested of Spark."""
        return self._was_started

    @property
    def reported(self) -> bool:
        """True if the end was reported to the server; later work of the JVM for the query has no effect."""
        return self._reported

    def start(self, *, after: Run | None = None) -> None:
        """Returns at once; with `after` that earlier run is stopped first."""
        self._after = after
        self._thread.start()

    def stop(self) -> None:
        """Asks the query to end; `QueryEnded` follows. Returns when Spark has stopped it.

        Planning cannot be interrupted, nor can some waits for a store. A query that is still at it is over all the same: Spark
        ends its thread as soon as that returns.
        """
        with self._lock:
            self._sink.stopping.set()
            was_started = self._was_started
        if not was_started:
            self._report(None)
            if self._start.plan.bounded:
                # The jobs that read its tables.
                self._root.sparkContext.cancelJobsWithTag(self.id)
            return
        query = self._query
        if query is None:
            self._root.sparkContext.cancelJobsWithTag(self.id)
        else:
            try:
                query.stop()
            except Exception:
                logger.warning("stopping query %s was not clean", self.id, exc_info=True)
                if query.lastProgress is None or self._silence is not None:
                    self._report(None)

    def look_at_stores(self, watch: StoreWatch) -> None:
        """Report when a store of the query does not answer and when it does again; to be called regularly.

        The query is ended if an entity was replaced since its start. The query of a reader is also ended if a store does not answer: a
        reader gets the reason only that way, and may ask again.
        """
        if self._query is None or self._identities is None or self._sink.stopping.is_set():
            return
        try:
            self._identities.compare(watch)
        except UserError as changed:
            self._give_up(changed)
            return
        self._silence = watch.silence(self._stores)
        if self._silence is not None and self._start.plan.sink.step == "write_results":
            self._give_up(self._silence)
            return
        if self._query.lastProgress is not None:
            self._slow_begin = None
        self._report_waiting(self._silence or self._slow_begin)

    def _report_waiting(self, error: ExternalError | None) -> None:
        """Report to the server why the query makes no progress, or that it makes progress again, whenever that changes."""
        waits = QueryWaits(
            query_id=self.id,
            generation=self.generation,
            reason=error.text() if error is not None else None,
            sqlstate=error.state.value if error is not None else None,
            store=error.store if isinstance(error, StoreSilentError) else None,
        )
        with self._lock:
            if waits.reason != self._waiting_reason:
                self._waiting_reason = waits.reason
                self._channel.send(waits)

    def report_again(self) -> None:
        """Report why the query makes no progress, if it makes none, to a server that does not know it yet."""
        with self._lock:
            self._waiting_reason = None

    def copy_checkpoint(self, target: Path, *, hold: bool) -> Border:
        """Copy the checkpoint between two batches into a folder that does not exist. The query waits meanwhile, and with `hold` until it
        is stopped or released.

        Raises UserError 57014 if no batch ends in time, and as `copy_failure` if the copy fails.
        """

        def copied(last: Border) -> Border:
            try:
                with self._sink.checkpoint.reading(target.parent) as checkpoint:
                    copy_checkpoint(checkpoint, target, last.batch, self._start.plan)
            except OSError as error:
                raise copy_failure(error) from error
            return last

        return self._sink.border.call(copied, timeout_s=_BORDER_S, hold=hold)

    def release(self) -> None:
        """Continue after `copy_checkpoint` with `hold`."""
        self._sink.border.release()

    def limit_planning(self) -> None:
        """End the query if its planning takes too long; to be called regularly."""
        planning = self._planning
        if planning is None:
            return
        used_ms = planning.used_ms()
        if used_ms is None:
            self._planning = None
        elif used_ms > self._start.planning_timeout_ms:
            self._give_up(
                UserError(
                    SqlState.TIMEOUT,
                    f"planning the query took more than {self._start.planning_timeout_ms / 1000:g} s of processor time",
                    hint="Simplify the statement: use fewer columns, terms, joins, or windows per row.",
                )
            )

    def join(self, timeout: float | None) -> bool:
        """True if the query has ended within `timeout` seconds; None: when it has."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def progress(self) -> QueryProgress | None:
        """Return the progress of the batches since the last call; None without a batch."""
        reader = self._progress
        return reader.read() if reader is not None else None

    def _run(self) -> None:
        failure: Failure | None = UNCLASSIFIED
        try:
            failure = self._live()
            self._sink.resources.close()
        except Exception:
            logger.warning("the sink of query %s was not closed in order", self.id, exc_info=True)
        finally:
            # Forgotten first: the server may answer the end with a new start of the same query at once.
            self._ended(self)
            # Whatever happened: a query that says nothing of its end runs for ever, as far as the server knows.
            self._report(failure)

    def _live(self) -> Failure | None:
        """Run the query to its end. Return the failure if it failed."""
        try:
            if self._after is not None:
                self._after.stop()
                if self._after.was_started and not self._after.join(EARLIER_RUN_S):
                    raise InternalError("an earlier run of the query has not ended yet")
                self._after = None
            self._execute()
        except ChannelClosedError:
            return None
        except BaseException as error:  # noqa: BLE001 - whatever ends a query is classified and reported
            if not self._sink.stopping.is_set():
                return self._failure(self._sink.error or error)
        return None

    def _failure(self, error: BaseException) -> Failure:
        try:
            failure = classify(error, self._start)
            if failure.domain == "external" and self._silence is not None:
                # The report of silence names the store and its address.
                failure = replace(classify(self._silence, self._start), trace=failure.trace)
        except Exception as other:  # noqa: BLE001 - logged below
            # Without the exception during which it was raised, which may contain secrets.
            trace = "".join(traceback.format_exception(other, chain=False))
            logger.error("cannot classify the failure of query %s\n%s", self.id, trace)
            failure = UNCLASSIFIED
        logger.error("query %s failed\n%s", self.id, failure.trace)
        if failure.domain == "internal" and not self._jvm_answers():
            # This process ends with its JVM before the wait is over, and the server then reports the end of the driver.
            time.sleep(_JVM_END_S)
        return failure

    def _jvm_answers(self) -> bool:
        try:
            return bool(jvm(self._root).java.lang.System.currentTimeMillis())
        except (Py4JError, RuntimeError, OSError):
            return False

    def _give_up(self, error: HeadraceError) -> None:
        """End the query for the server, though its thread may still run."""
        self._sink.stopping.set()
        self._report(self._failure(error))
        threading.Thread(target=self.stop, name=f"stop-{self.id}", daemon=True).start()

    def _report(self, failure: Failure | None) -> None:
        """Report the end to the server, at the first call only."""
        with self._lock:
            if self._reported:
                return
            self._reported = True
        with suppress(ChannelClosedError):
            try:
                if (last := self.progress()) is not None:
                    self._channel.send(last)
            except ChannelClosedError:
                raise
            except Exception:
                logger.warning("no last progress of query %s", self.id, exc_info=True)
            self._channel.send(self._end(failure))

    def _execute(self) -> None:
        plan = self._start.plan
        # A pool of its own in the fair scheduler: no query waits for the tasks of another.
        self._root.sparkContext.setLocalProperty("spark.scheduler.pool", self.id)
        attribute_jobs(self._root, self._measured_as)
        session = self._root.newSession()
        divide_state(session, self._sink.checkpoint, plan.state_partitions)
        planning = self._planning = PlanningTime(self._root)
        if plan.bounded:
            self._root.sparkContext.addJobTag(self.id)
        self._identities = Identities(self._start, self._sink.checkpoint)
        self._identities.begin()
        self._sink.compare_tables = self._identities.compare_written
        work = build(
            session,
            self._start,
            records_per_batch=self._records_per_batch(),
            resources=self._sink.resources,
        )
        if isinstance(plan.sink, OptimizeEntity) or (
            isinstance(plan.sink, WriteResults | WriteRows) and not work.frames[plan.sink.input].isStreaming
        ):
            self._answer(work, plan.sink)
            return
        writer = sink(work, self._sink)
        writer = writer.queryName(self.id).option("checkpointLocation", self._sink.checkpoint.uri)
        writer = self._triggered(writer, session, work.poll_ms).outputMode(
            "update" if plan.mode == "real_time" else plan.output_mode
        )
        with self._lock:
            if self._sink.stopping.is_set():
                return
            self._was_started = True
        self._identities.keep()
        remove_unfinished(self._sink.checkpoint)
        windowed = any(isinstance(step, AssignWatermark) and step.window_ms for step in plan.steps)
        backlog = Backlog(work).bytes
        for attempt in range(1, _STARTS_MAX + 1):
            query = self._query = writer.start()
            planning.started(query)
            self._progress = ProgressReader(
                self.id,
                query,
                session,
                windowed=windowed,
                real_time=plan.mode == "real_time",
                backlog=backlog,
                measures=measures(plan),
                checkpoint=self._sink.checkpoint,
            )
            if attempt == 1:
                self._channel.send(QueryStarted(query_id=self.id, generation=self.generation))
            if self._sink.stopping.is_set():
                query.stop()
            try:
                query.awaitTermination()
                if plan.bounded and not self._sink.stopping.is_set():
                    clear_spool(self._sink.checkpoint)
                return
            except StreamingQueryException as error:
                # Its sources come first: nothing was read or written yet.
                if attempt == _STARTS_MAX or self._sink.stopping.is_set() or not began_slowly(str(error)):
                    raise
                self._slow_begin = slow_begin()
                self._report_waiting(self._slow_begin)
                logger.warning(
                    "a source of query %s took too long to start; the query is started again", self.id
                )

    def _answer(self, work: Build, step: WriteResults | WriteRows | OptimizeEntity) -> None:
        """Runs a bounded plan without a stream. `stop` finds its jobs by their tag."""
        with self._lock:
            if self._sink.stopping.is_set():
                return
            self._was_started = True
        self._channel.send(QueryStarted(query_id=self.id, generation=self.generation))
        if isinstance(step, WriteRows):
            insert_rows(work, step, self._sink)
        else:
            send_answer(work, step, self._sink)

    def _records_per_batch(self) -> int | None:
        if self._start.plan.mode == "real_time":
            return None
        if self._start.plan.sink.step == "write_results":
            return self._options.interactive_records_per_batch
        return self._options.records_per_batch

    def _is_behind(self) -> bool:
        most, last = self._records_per_batch(), self._query.lastProgress if self._query is not None else None
        if most is None or last is None:
            return False
        # Half, since some offsets have no record: markers of transactions, and compacted records.
        return any(source.numInputRows > most // 2 for source in last.sources)

    def _triggered(self, writer: DataStreamWriter, session: SparkSession, poll_ms: int) -> DataStreamWriter:
        plan = self._start.plan
        if any(isinstance(step, AssignWatermark) for step in plan.steps):
            # Spark would run no batch before a new row is there, though the watermark may have released something.
            watermark = jvm(session).io.headrace.spark.PartitionWatermark
            watermark.resume(session._jsparkSession, self._sink.checkpoint.uri)
        if plan.bounded:
            return writer.trigger(availableNow=True)
        if plan.mode == "real_time":
            # Spark 4.1 has this trigger on the JVM only.
            trigger = jvm(session).org.apache.spark.sql.streaming.Trigger
            interval = f"{self._start.checkpoint_interval_ms} milliseconds"
            writer._jwrite = writer._jwrite.trigger(trigger.RealTime(interval))
        elif poll_ms:
            return writer.trigger(processingTime=f"{poll_ms} milliseconds")
        return writer

    def _finish(self) -> None:
        """Stop the query because its sink is complete. Spark would wait for the calling batch, so another thread stops the query."""
        self._sink.stopping.set()
        threading.Thread(target=self.stop, daemon=True).start()

    def _end(self, failure: Failure | None) -> QueryEnded:
        if failure is None:
            return QueryEnded(query_id=self.id, generation=self.generation)
        return QueryEnded(
            query_id=self.id,
            generation=self.generation,
            error=failure.message,
            hint=failure.hint,
            sqlstate=failure.sqlstate,
            domain=failure.domain,
        )
