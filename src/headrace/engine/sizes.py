"""Sizes of compute pools: multiples of the operator's heap and number of parallel tasks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headrace.catalog.objects import ComputePool, PoolIntent
from headrace.core.errors import UserError
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.engine.pool_properties import Place, is_cluster, is_kubernetes, place_of
from headrace.planner.target import Target

SIZES = {"small": 1, "medium": 2, "large": 4}
"""Size of a pool to its factor. HEADRACE_DRIVER_MEMORY_MB and HEADRACE_SPARK_MASTER are those of `small`."""

_LOCAL = re.compile(r"local\[(\d+)(.*)\]")
_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True)
class Resources:
    """Resources of a driver process: its heap in MiB, where its tasks run, whether the workers there have Headrace's Python, and whether
    the rows of materialized views are in a database outside of the server.

    The slots of a cluster do not depend on the size.
    """

    heap_mb: int
    place: Place
    worker_python: bool = False
    outside_views: bool = False

    @property
    def target(self) -> Target:
        """The target of the plans that run there."""
        master, cluster = self.place.master, self.place.cluster
        checkpoints: Literal["folder", "s3"] = "s3" if self.place.is_remote else "folder"
        if not is_cluster(master):
            local = _LOCAL.fullmatch(master)
            slots = int(local[1]) if local else None
            return Target(slots=slots, checkpoints=checkpoints, outside_views=self.outside_views)
        kind: Literal["standalone", "kubernetes"] = "kubernetes" if is_kubernetes(master) else "standalone"
        is_elastic = cluster is not None and cluster.executors_max is not None
        return Target(
            master=kind,
            slots=cluster and cluster.slots,
            slots_min=cluster.executors * cluster.cores if cluster is not None and is_elastic else None,
            python=self.worker_python,
            checkpoints=checkpoints,
            outside_views=self.outside_views,
        )


def resources(size: str, settings: Settings, properties: Mapping[str, str] | None = None) -> Resources:
    """Return the resources of a pool of a size, with its properties."""
    factor, local = SIZES[size], _LOCAL.fullmatch(settings.spark_master)
    master = f"local[{int(local[1]) * factor}{local[2]}]" if local else settings.spark_master
    place = place_of(properties or {}, master)
    # In Kubernetes, executors have the image of the driver.
    has_python = is_kubernetes(place.master) or (
        is_cluster(place.master) and settings.worker_python is not None
    )
    return Resources(settings.driver_memory_mb * factor, place, has_python, settings.views is not None)


def pool_resources(pool: ComputePool, settings: Settings) -> Resources:
    """Return the resources of a pool."""
    return resources(pool.size, settings, pool.properties)


def memory_mb() -> int:
    """Return the memory of the machine, or of the container where that is less, in MiB."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # Without a container there is no such file, or it contains `max`.
    with suppress(OSError, ValueError):
        total = min(total, int(_CONTAINER_LIMIT.read_text()))
    return total // 2**20


def refuse_beyond_memory(
    pool: ComputePool, others: Iterable[ComputePool], settings: Settings, available_mb: int
) -> None:
    """Raise UserError 53000 if the heap of a pool does not fit into memory beside the heaps of the other pools that are to run, and of the
    processes on standby. Pools whose driver is a pod of Kubernetes need no memory here."""
    running = [other for other in others if other.id != pool.id and other.desired_state is PoolIntent.RUNNING]
    given = {item.name: pool_resources(item, settings) for item in (pool, *running)}
    needed = {name: each.heap_mb for name, each in given.items() if not is_kubernetes(each.place.master)}
    if pool.name not in needed:
        return
    if settings.pools_standby:
        needed["on standby"] = resources("small", settings).heap_mb * settings.pools_standby
    if sum(needed.values()) <= available_mb:
        return
    sizes = ", ".join(f"{name} {heap} MiB" for name, heap in needed.items())
    raise UserError(
        SqlState.CONFIGURATION_LIMIT_EXCEEDED,
        f"the compute pool {pool.name!r} does not fit into the machine's memory of {available_mb} MiB: the heaps would be {sizes}",
        hint="Choose a smaller size, STOP another pool, or lower HEADRACE_DRIVER_MEMORY_MB.",
    )
