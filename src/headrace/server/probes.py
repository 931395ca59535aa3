"""Probes of an orchestrator: `/healthz` (the process answers) and `/readyz` (this server leads, and the catalog can be read).

Neither needs a token or returns more than that. A compute pool that is down does not make the server unready: its state is in LIST
COMPUTE_POOLS, and DDL and views work without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fastapi import APIRouter
from starlette.responses import PlainTextResponse, Response

PATHS = frozenset({"/healthz", "/readyz"})
READY_TIMEOUT_S = 2.0


def router(is_ready: Callable[[], bool], *, leads: bool = True) -> APIRouter:
    """Return both paths; `is_ready` may block."""
    routes = APIRouter()

    @routes.get("/healthz", response_class=PlainTextResponse, summary="Whether the process answers")
    async def healthz() -> Response:
        return PlainTextResponse("ok\n")

    @routes.get(
        "/readyz",
        response_class=PlainTextResponse,
        summary="Whether statements can be answered",
        responses={503: {"description": "Not now.", "content": {"text/plain": {}}}},
    )
    async def readyz() -> Response:
        if not leads:
            return PlainTextResponse("standby\n", status_code=503)
        try:
            ready = await asyncio.wait_for(asyncio.to_thread(is_ready), READY_TIMEOUT_S)
        except TimeoutError:
            ready = False
        return PlainTextResponse("ok\n") if ready else PlainTextResponse("not ready\n", status_code=503)

    return routes
