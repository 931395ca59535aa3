"""Removal of a driver's pod, which may run until its object is gone."""

from __future__ import annotations

import asyncio
import time

from headrace.core.errors import ExternalError
from headrace.core.sqlstate import SqlState
from headrace.engine.kubernetes.api import KubernetesApi
from headrace.engine.kubernetes.pods import GRACE_S

GONE_TIMEOUT_S = GRACE_S + 40.0
POLL_S = 0.5


async def remove(api: KubernetesApi, name: str, uid: str | None, *, timeout_s: float | None = None) -> None:
    """Delete the pod of that uid (None: any) and wait until it is gone. Raises ExternalError 57014 if it is not: it may still run."""
    deadline = time.monotonic() + (GONE_TIMEOUT_S if timeout_s is None else timeout_s)
    await asyncio.to_thread(api.delete_pod, name, uid)
    while (pod := await asyncio.to_thread(api.pod, name)) is not None:
        # Of another server, which has taken over and waited for this one.
        if uid is not None and pod.metadata.uid != uid:
            return
        if time.monotonic() > deadline:
            raise ExternalError(
                SqlState.TIMEOUT,
                f"the pod {name} does not end",
                hint="If its node is lost, delete the node: nobody knows whether the pod still runs there.",
            )
        await asyncio.sleep(POLL_S)
