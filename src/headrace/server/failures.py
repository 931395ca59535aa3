"""HTTP failures in the one shape that the clients read: `{"message": …}` as JSON."""

from __future__ import annotations

import uuid

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

log = structlog.get_logger()


class Refused(BaseModel):
    """The body of every error response."""

    message: str


def refusal(status: int, message: str) -> JSONResponse:
    """Return a failed HTTP answer."""
    return JSONResponse({"message": message}, status_code=status)


def register(app: FastAPI) -> None:
    """Replace the framework's own `{"detail": …}` bodies."""
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(Exception, _on_anything)


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for nothing else
    message = str(error.detail)
    if error.status_code == 404 and message == "Not Found":
        message = f"path not found: {request.url.path}"
    elif error.status_code == 405:
        message = f"{request.method} is not allowed on {request.url.path}"
    answer = refusal(error.status_code, message)
    for name, value in (error.headers or {}).items():
        answer.headers[name] = value
    return answer


async def _on_anything(_request: Request, error: Exception) -> Response:
    identifier = str(uuid.uuid4())
    log.error("request_broke", error_id=identifier, exc_info=error)
    return refusal(500, f"internal server error; the server's log contains the details under {identifier}")


async def _on_invalid(_request: Request, error: Exception) -> Response:
    # 400, because the clients know no 422.
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for nothing else
    problems = "; ".join(
        f"{'.'.join(str(part) for part in item['loc'][1:])}: {item['msg']}" for item in error.errors()
    )
    return refusal(400, f"the request cannot be read: {problems}")
