"""A number of executors that follows the load of a pool on a cluster: the rule, and the thread that applies it. See ADR 76."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from pyspark.sql import SparkSession

from headrace.engine.driver.jvm import jvm
from headrace.engine.driver.options import DriverOptions
from headrace.engine.pool_properties import Cluster

logger = logging.getLogger(__name__)

_BUSY = 0.8
"""Share of the slots that run tasks from which on more executors help. The rest of the time of a small batch is the driver's."""
_LIGHT = 0.5
"""Share of the slots of one executor less that would run tasks, down to which the pool does without it."""
_BUSY_READINGS = 2
_LIGHT_READINGS = 12
"""A pool grows quickly and shrinks slowly: state must be loaded again elsewhere when an executor ends, and the next one is a cold JVM."""


@dataclass(frozen=True)
class Load:
    """A reading: executors that take tasks, tasks that ran at once on average, and most tasks that ran or waited for a slot at once."""

    executors: int
    running: float
    most: int


@dataclass(frozen=True)
class Scale:
    """Executors that a pool requests, how many readings in a row were busy, and the running tasks of the readings since one was."""

    requested: int
    busy: int = 0
    recent: tuple[float, ...] = ()


def scaled(scale: Scale, load: Load, cluster: Cluster) -> Scale:
    """Return the scale of a pool after a reading.

    A pool whose slots are busy while tasks wait grows to what its tasks fill, at most twice. A pool without a busy reading for some time,
    whose load fits into one executor less, loses one. A load between the two changes nothing, so that no change causes the opposite one.
    """
    requested, cores = scale.requested, cluster.cores
    slots = load.executors * cores
    if load.running >= _BUSY * slots and load.most > slots:
        # Executors that are requested and missing come when workers have room: to ask for more does not help.
        if load.executors < requested or requested == cluster.most:
            return Scale(requested)
        if scale.busy + 1 < _BUSY_READINGS:
            return Scale(requested, busy=scale.busy + 1)
        return Scale(min(cluster.most, 2 * requested, -(-load.most // cores)))
    recent = (*scale.recent, load.running)[-_LIGHT_READINGS:]
    is_light = len(recent) == _LIGHT_READINGS and fmean(recent) <= _LIGHT * (requested - 1) * cores
    return (
        Scale(requested - 1)
        if is_light and requested > cluster.executors
        else Scale(requested, recent=recent)
    )


class ElasticExecutors:
    """Executors of a pool with bounds. `requested` is their number of now."""

    def __init__(self, session: SparkSession, cluster: Cluster, options: DriverOptions) -> None:
        self._scale = Scale(cluster.executors)
        self._cluster = cluster
        self._interval_s = options.scale_interval_ms / 1000
        self._java = jvm(session).org.apache.spark.deploy.headrace.Cluster
        self._context: Any = session.sparkContext._jsc.sc()

    @property
    def requested(self) -> int:
        """The executors that the pool has or waits for."""
        return self._scale.requested

    def start(self) -> None:
        """Start to follow the load, on a thread of its own: a master that is away is waited for."""
        threading.Thread(target=self._follow, name="executors", daemon=True).start()

    def _follow(self) -> None:
        load = self._java.measure(self._context)
        while not self._context.isStopped():
            time.sleep(self._interval_s)
            try:
                self._apply(load)
            except Exception:
                logger.warning("the number of executors was not changed", exc_info=True)

    def _apply(self, load: Any) -> None:
        running, most = load.read()
        executors, before = self._java.active(self._context), self._scale.requested
        self._scale = scaled(self._scale, Load(executors, running, int(most)), self._cluster)
        requested = self._scale.requested
        if requested != before:
            logger.warning(
                "%d executors requested after %d: %.1f tasks at once, %d at most",
                requested,
                before,
                running,
                most,
            )
        if requested < executors:
            self._java.release(self._context, requested)
        elif requested > executors:
            # Again at each reading: a master that has been started again does not know the number.
            self._java.request(self._context, requested)
