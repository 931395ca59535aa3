"""The first statements of a new user: README's, and the text of an empty editor (GET /v2/quick-start)."""

from __future__ import annotations

from importlib.resources import files

from fastapi import APIRouter
from starlette.responses import PlainTextResponse, Response

USUAL_BROKER = "127.0.0.1:9092"
_NO_BROKER = """\
-- This server was started without a Kafka broker. Write the address of yours below,
-- or start one with the server: headrace up --with-kafka
"""


def quick_start(broker: str | None) -> str:
    """Return the statements, over the broker at the address `broker` (HOST:PORT) that the server started, if it did."""
    text = files("headrace.server").joinpath("quick_start.sql").read_text(encoding="utf-8")
    text = text.replace("${broker}", broker or USUAL_BROKER)
    return text if broker else _NO_BROKER + text


def router(broker: str | None) -> APIRouter:
    """Return the one route."""
    routes = APIRouter(prefix="/v2")

    @routes.get("/quick-start", summary="First statements to run", response_class=PlainTextResponse)
    async def text() -> Response:
        return PlainTextResponse(quick_start(broker))

    return routes
