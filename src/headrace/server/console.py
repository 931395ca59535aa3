"""Settings of the server that decide what the console shows (GET /v2/console)."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, Field

from headrace.core.settings import Settings


class ConsoleSettings(BaseModel):
    """Optional parts of the console."""

    graphiql: bool = Field(description="True if the page GraphQL is on.")


def router(settings: Settings) -> APIRouter:
    """Return the one route."""
    routes = APIRouter(prefix="/v2")

    @routes.get("/console", summary="Optional parts of the console")
    async def parts() -> ConsoleSettings:
        return ConsoleSettings(graphiql=settings.graphiql)

    return routes
