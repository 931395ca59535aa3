"""Messages of the server to actions on queries."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from headrace.connectors.carried_errors import carried_text
from headrace.core.errors import ExternalError, UserError
from headrace.engine.driver import cluster
from headrace.engine.driver.application import RunningApplication
from headrace.engine.driver.channel import Channel, ChannelClosedError
from headrace.engine.driver.elastic import ElasticExecutors
from headrace.engine.driver.options import DriverOptions
from headrace.engine.driver.outliving import OutlivingChannel
from headrace.engine.driver.query import RunningQuery
from headrace.engine.driver.stores import StoreWatch
from headrace.engine.driver.task_times import TaskTimes
from headrace.engine.protocol import (
    DRIVER_FAILED,
    CheckpointCopied,
    CopyCheckpoint,
    Message,
    PoolSlots,
    PoolTasks,
    QueryEnded,
    ReleaseQuery,
    Resumed,
    RunningState,
    Shutdown,
    StartQuery,
    StopQuery,
)

logger = logging.getLogger(__name__)

_MASTER_INTERVAL_S = 5.0

Running = RunningQuery | RunningApplication


class DriverService:
    """Queries of a driver. `run` returns at the server's request, or when the connection to the server is closed and no other server
    takes the driver over."""

    def __init__(self, session: SparkSession, channel: Channel, options: DriverOptions) -> None:
        self._session = session
        self._channel = channel
        self._options = options
        self._queries: dict[str, Running] = {}
        self._lock = threading.Lock()
        self._slots: PoolSlots | None = None
        self._task_times: TaskTimes | None = None
        self._held: set[str] = set()
        """Queries that the server has asked to hold between two batches."""
        self._stopping: set[str] = set()
        """Queries that are to end, by request or because their server has ended."""
        self._elastic = (
            ElasticExecutors(session, options.cluster, options)
            if options.cluster is not None and options.cluster.executors_max is not None
            else None
        )

    def run(self) -> bool:
        """Serve until the end. Return True if the queries are to be stopped, False if nothing that they do has an effect any more."""
        self._measure_tasks()
        threading.Thread(target=self._report, name="progress", daemon=True).start()
        if self._elastic is not None:
            self._elastic.start()
        if self._options.spark_master.startswith("spark://"):
            threading.Thread(target=self._watch_master, name="master", daemon=True).start()
        while True:
            for message in self._channel.messages():
                if isinstance(message, Shutdown):
                    return True
                self._handle(message)
            if not isinstance(self._channel, OutlivingChannel):
                return False
            self._abandon()
            if not self._channel.rejoin(self._resumed):
                return True
            self._slots = None
            for query in self._running():
                query.report_again()

    def _abandon(self) -> None:
        """Stop the queries that cannot go on without the server that has ended: those of readers, and those that it has held between two
        batches, whose next version may have a copy of this checkpoint already."""
        for query in self._running():
            if query.is_interactive or query.id in self._held:
                self._stopping.add(query.id)
                threading.Thread(target=query.stop, name=f"stop-{query.id}", daemon=True).start()
        self._held.clear()

    def _resumed(self, ended: Collection[QueryEnded]) -> Resumed:
        """Describe the continuous queries to a server that takes the driver over; `ended` are those of whose ends no server has heard."""
        running = [query for query in self._running() if not query.is_interactive]
        generations = {end.query_id: end.generation for end in ended} | {
            query.id: query.generation for query in running
        }
        started = {query.id for query in running if query.was_started}
        states = [
            RunningState(
                query_id=query_id,
                generation=generation,
                is_started=query_id in started,
                is_stopping=query_id in self._stopping,
            )
            for query_id, generation in generations.items()
        ]
        return Resumed(pid=os.getpid(), spark_version=self._session.version, queries=states)

    def stop_all(self, timeout: float) -> None:
        """Stop every query, at most `timeout` seconds long."""
        deadline = time.monotonic() + timeout
        running = self._running()
        for query in running:
            threading.Thread(target=query.stop, daemon=True).start()
        for query in running:
            query.join(max(0.0, deadline - time.monotonic()))

    def _handle(self, message: Message) -> None:
        if isinstance(message, StartQuery):
            self._start(message)
        elif isinstance(message, StopQuery):
            self._stop(message.query_id)
        elif isinstance(message, CopyCheckpoint):
            if message.hold:
                self._held.add(message.query_id)
            threading.Thread(
                target=self._copy, args=(message,), name=f"copy-{message.query_id}", daemon=True
            ).start()
        elif isinstance(message, ReleaseQuery):
            self._release(message.query_id)
        else:
            logger.warning("unexpected message %s", message.type)

    def _start(self, message: StartQuery) -> None:
        query = self._made(message)
        self._held.discard(message.query_id)
        self._stopping.discard(message.query_id)
        with self._lock:
            earlier = self._queries.get(message.query_id)
            if earlier is not None and earlier.generation >= message.generation and not earlier.reported:
                return
            self._queries[message.query_id] = query
        query.start(after=earlier)

    def _made(self, message: StartQuery) -> Running:
        run_class = RunningApplication if len(message.plan.parts()) > 1 else RunningQuery
        return run_class(self._session, message, self._channel, options=self._options, ended=self._forget)

    def _stop(self, query_id: str) -> None:
        with self._lock:
            query = self._queries.get(query_id)
            self._stopping = {each for each in self._stopping if each in self._queries} | {query_id}
        if query is None:
            self._channel.send(QueryEnded(query_id=query_id, generation=0))
            return
        threading.Thread(target=query.stop, name=f"stop-{query_id}", daemon=True).start()

    def _copy(self, message: CopyCheckpoint) -> None:
        with self._lock:
            query = self._queries.get(message.query_id)
        answer = CheckpointCopied(sequence=message.sequence, is_running=False)
        if query is not None and query.was_started and not query.reported:
            answer = answer.model_copy(update={"is_running": True, **_copied(query, message)})
        with suppress(ChannelClosedError):
            self._channel.send(answer)

    def _release(self, query_id: str) -> None:
        self._held.discard(query_id)
        with self._lock:
            query = self._queries.get(query_id)
        if query is not None:
            query.release()

    def _forget(self, query: Running) -> None:
        with self._lock:
            if self._queries.get(query.id) is query:
                del self._queries[query.id]

    def _running(self) -> list[Running]:
        with self._lock:
            return [query for query in self._queries.values() if not query.reported]

    def _report(self) -> None:
        interval = self._options.progress_interval_ms / 1000
        watch = StoreWatch()
        while True:
            time.sleep(interval)
            try:
                if not self._options.spark_master.startswith("local"):
                    self._report_slots()
                self._report_tasks()
            except ChannelClosedError:
                return
            for query in self._running():
                try:
                    query.limit_planning()
                    query.look_at_stores(watch)
                    progress = query.progress()
                    if progress is not None:
                        self._channel.send(progress)
                except ChannelClosedError:
                    return
                except Exception:
                    logger.debug("no progress of query %s", query.id, exc_info=True)

    def _measure_tasks(self) -> None:
        self._task_times = TaskTimes(self._session)

    def _report_tasks(self) -> None:
        """Report the time of the tasks since the last report, if any ran."""
        try:
            if self._task_times is not None and (queries := self._task_times.take()):
                self._channel.send(PoolTasks(queries=queries))
        except Py4JError:
            logger.debug("no time of tasks", exc_info=True)

    def _requested(self) -> int | None:
        """Return how many executors the pool has asked for; None if it takes all of a cluster."""
        if self._elastic is not None:
            return self._elastic.requested
        return self._options.cluster.executors if self._options.cluster is not None else None

    def _report_slots(self) -> None:
        """Report the slots of the cluster's executors if they have changed. End the process if the master has ended the application."""
        slots = cluster.slots(self._session, self._options, self._requested())
        if slots is None:
            _end("the Spark cluster has ended the application of the compute pool")
        if slots != self._slots:
            self._slots = slots
            self._channel.send(slots)

    def _watch_master(self) -> None:
        """End the process when executors are missing and the master does not know the application: nobody would start them again."""
        while True:
            time.sleep(_MASTER_INTERVAL_S)
            try:
                slots = cluster.slots(self._session, self._options, self._requested())
                if slots is None or slots.executors >= (slots.requested or 1):
                    continue
                if cluster.is_forgotten(self._session):
                    _end(
                        f"the Spark master {self._options.spark_master} no longer knows the application of the compute pool: it was "
                        "started again, or lost the connection to the driver"
                    )
            except Exception:
                logger.debug("the Spark master was not asked", exc_info=True)


def _end(reason: str) -> NoReturn:
    """End the process with an error that the server reads. It starts another one, whose queries continue from their checkpoints."""
    logger.error("%s%s", DRIVER_FAILED, reason)
    sys.stderr.flush()
    os._exit(1)


def _copied(query: Running, message: CopyCheckpoint) -> dict[str, object]:
    """Copy a checkpoint; return the fields of the answer."""
    try:
        return {"batch": query.copy_checkpoint(Path(message.target), hold=message.hold).batch}
    except (UserError, ExternalError) as error:
        return {"error": carried_text(error)}
    except Exception:
        logger.exception("the checkpoint of query %s was not copied", query.id)
        return {"error": ""}
