"""The routes of REST v2."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request, WebSocket
from starlette.exceptions import HTTPException
from starlette.responses import Response

from headrace import __version__
from headrace.catalog.objects import Principal
from headrace.core.settings import Settings
from headrace.server.auditing import Audit
from headrace.server.auth import principal_of
from headrace.server.dataplane.addresses import stream_uri
from headrace.server.dataplane.sockets import serve_stream
from headrace.server.dataplane.tickets import TicketOffice
from headrace.server.hosts import Hosts
from headrace.server.metrics import Metrics
from headrace.server.rest.answers import (
    Answer,
    TurnedAway,
    checked,
    completed,
    described,
    finished,
    page_count,
    planned,
    under_way,
)
from headrace.server.rest.runs import StatementRun, StatementRuns, Work
from headrace.server.rest.shapes import (
    COMPLETION,
    OF_CHECKS,
    OF_COMPLETIONS,
    OF_LANGUAGE,
    OF_PLANS,
    OF_POLLS,
    OF_STATEMENTS,
    SUBMISSION,
    Version,
)
from headrace.server.rest.submission import read_completion, read_submission
from headrace.server.turns import RETRY_AFTER_S, NoTurnError

POLL_HOLD_S = 1.0
"""How long a poll waits for its statement: clients come once a second, and then need not come again."""


@dataclass(frozen=True)
class ControlPlane:
    """Services of the routes."""

    settings: Settings
    hosts: Hosts
    runs: StatementRuns
    tickets: TicketOffice
    metrics: Metrics
    ended: Callable[[Principal], str | None]
    audit: Audit


def router(plane: ControlPlane) -> APIRouter:
    """Return all of REST v2 and, at the address of a statement, its stream."""
    routes = APIRouter(prefix="/v2")

    @routes.get("/version", response_model=Version, summary="The server's version")
    async def version() -> dict[str, int]:
        major, minor, patch = (int(part) for part in __version__.split(".")[:3])
        return {"major": major, "minor": minor, "patch": patch}

    @routes.post(
        "/statements",
        summary="Run statements",
        openapi_extra=SUBMISSION,
        responses=OF_STATEMENTS,
    )
    async def submit(request: Request) -> Response:
        work = await _work(plane, request)
        with _admitted(plane):
            run = plane.runs.submit(work)
        answer = await run.answer(plane.settings.statement_timeout_ms / 1000)
        return _response(plane, request, run, answer, partition=0)

    _add_checks(routes, plane)
    _add_language(routes, plane)

    @routes.get(
        "/statements/{statement_id}",
        summary="Poll a statement, or fetch a further partition of its result",
        responses=OF_POLLS,
    )
    async def poll(
        request: Request, statement_id: str, partition: Annotated[int, Query(alias="partitionID", ge=0)] = 0
    ) -> Response:
        run = plane.runs.find(statement_id, principal_of(request))
        if run is None:
            raise HTTPException(
                404, f"the statement {statement_id} does not exist, or its result has expired"
            )
        answer = await run.answer(POLL_HOLD_S)
        return _response(plane, request, run, answer, partition=partition)

    @routes.websocket("/statements/{statement_id}")
    async def stream(websocket: WebSocket, statement_id: str) -> None:
        await serve_stream(websocket, statement_id, plane.tickets, plane.metrics, plane.ended, plane.audit)

    return routes


def _add_checks(routes: APIRouter, plane: ControlPlane) -> None:
    """Add what is answered about statements that are not run."""

    @routes.post(
        "/validate",
        summary="Check statements without running them",
        openapi_extra=SUBMISSION,
        responses=OF_CHECKS,
    )
    async def validate(request: Request) -> Response:
        work = await _work(plane, request)
        with _admitted(plane):
            result = await plane.runs.check(work)
        return checked(result)

    @routes.post(
        "/plan",
        summary="Compare statements, as the desired state, with what exists",
        openapi_extra=SUBMISSION,
        responses=OF_PLANS,
    )
    async def plan(request: Request) -> Response:
        work = await _work(plane, request)
        with _admitted(plane):
            steps = await plane.runs.plan(work)
        return planned(steps)


def _add_language(routes: APIRouter, plane: ControlPlane) -> None:
    """Add what editors ask for: completion and the language."""

    @routes.post(
        "/complete",
        summary="Complete statements at a position",
        openapi_extra=COMPLETION,
        responses=OF_COMPLETIONS,
    )
    async def complete(request: Request) -> Response:
        asked = await read_completion(request)
        offset = len(asked.statement) if asked.offset is None else asked.offset
        with _admitted(plane):
            completion = await plane.runs.complete(
                asked.statement,
                offset,
                principal_of(request),
                asked.context,
                session_id=asked.parameters.session_id or "",
            )
        return completed(completion)

    @routes.get("/language", summary="The language as data, for editors", responses=OF_LANGUAGE)
    async def language() -> Response:
        return described(await plane.runs.language())


async def _work(plane: ControlPlane, request: Request) -> Work:
    """Return the submitted text. Raises HTTPException 400 if it cannot be read."""
    submitted = await read_submission(request, bytes_max=plane.settings.request_bytes_max)
    asked = submitted.request
    session_id = asked.parameters.session_id or ""
    return Work(asked.statement, principal_of(request), asked.context, session_id, submitted.files)


def _response(
    plane: ControlPlane, request: Request, run: StatementRun, answer: Answer | None, *, partition: int
) -> Response:
    if answer is None:
        return under_way(run.envelope)
    if isinstance(answer, TurnedAway):
        raise _too_busy()
    rows_max = plane.settings.result_rows_max
    pages = page_count(answer, rows_max)
    if partition >= pages:
        raise HTTPException(400, f"expected a partitionID below {pages}, found {partition}")
    run.pages = pages
    run.fetched.add(partition)
    uri = stream_uri(request, plane.hosts, run.envelope.statement_id)
    return finished(run.envelope, answer, partition=partition, rows_max=rows_max, stream_uri=uri)


@contextmanager
def _admitted(plane: ControlPlane) -> Iterator[None]:
    try:
        yield
    except NoTurnError:
        plane.metrics.turned_away()
        raise _too_busy() from None


def _too_busy() -> HTTPException:
    headers = {"Retry-After": str(RETRY_AFTER_S)}
    return HTTPException(503, "too many statements are running; try again soon", headers)
