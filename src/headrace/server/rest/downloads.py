"""GET /v2/download: the files of function sources and descriptor sources (client-contract section 1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from headrace.catalog.audit import AuditEntry, AuditOutcome
from headrace.catalog.objects import Principal
from headrace.server.auditing import refused_request
from headrace.server.auth import principal_of
from headrace.server.failures import Refused

Download = Callable[[Principal, str, str, str], bytes | None]
"""The file of a source by its kind, organization and name, for a principal; None where there is none for it. Blocks."""


_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The file as it was uploaded.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    },
    404: {"description": "The file does not exist or is not authorized.", "model": Refused},
}


def router(download: Download, audit: Callable[[AuditEntry], None]) -> APIRouter:
    """Return the router of the one route. Names are looked up in the catalog: none is a path of this machine."""
    routes = APIRouter(prefix="/v2/download")

    @routes.get(
        "/{kind}/{organization}/{name:path}",
        summary="The file of a function source or a descriptor source",
        response_class=Response,
        responses=_ANSWERS,
    )
    async def file(request: Request, kind: str, organization: str, name: str) -> Response:
        principal = principal_of(request)
        content = await asyncio.to_thread(download, principal, kind, organization, name)
        entry = refused_request(request.scope, principal, "the file does not exist or is not authorized")
        if content is not None:
            done = f"GET {request.url.path}"
            entry = replace(entry, outcome=AuditOutcome.ALLOWED, sqlstate=None, detail=done)
        audit(entry)
        if content is None:
            raise HTTPException(
                404, f"the {kind.replace('_', ' ')} {name} does not exist or is not authorized"
            )
        headers = {"Content-Disposition": "attachment"}
        return Response(content, media_type="application/octet-stream", headers=headers)

    return routes
