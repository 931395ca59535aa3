"""Description of the place where a plan runs: a runtime, a kind of Spark master, and the slots for its tasks."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from headrace.core.wording import counted

_PLACES = {
    "local": "the server's machine",
    "standalone": "a standalone cluster",
    "kubernetes": "Kubernetes",
}


class Target(BaseModel):
    """The runtime, the master and the kind of place of the checkpoints of a compute pool.

    `slots` is the number of tasks that run at the same time, None if it is not known; `slots_min` is less if it follows the load.
    `python`: the workers of a cluster have Headrace's Python. `outside_views`: the rows of materialized views are in a
    database outside of the server.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    runtime: Literal["spark-4.1"] = "spark-4.1"
    master: Literal["local", "standalone", "kubernetes"] = "local"
    slots: int | None = None
    slots_min: int | None = None
    python: bool = False
    checkpoints: Literal["folder", "s3"] = "folder"
    outside_views: bool = False

    @property
    def is_cluster(self) -> bool:
        """True if tasks run in other processes than the driver, on machines that may share no folder with it."""
        return self.master != "local"

    def __str__(self) -> str:
        where = _PLACES[self.master]
        least = "" if self.slots_min is None else f"{self.slots_min} to "
        slots = "" if self.slots is None else f", {least}{counted(self.slots, 'slot')}"
        python = ", Python" if self.python else ""
        remote = ", checkpoints in S3" if self.checkpoints == "s3" else ""
        return f"{where}{slots}{python}{remote} ({self.runtime.replace('-', ' ').capitalize()})"


LOCAL = Target()
"""The server's machine, with an unknown number of slots."""
