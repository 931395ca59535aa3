"""The OpenAPI document, generated from the HTTP routes, so that both always agree (docs/adr/0038)."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from headrace import __version__
from headrace.server import probes, signin
from headrace.server.failures import Refused
from headrace.server.rest.submission import StatementRequest

_SCHEMAS = "#/components/schemas/{model}"
_DESCRIPTION = """\
Statements of SQL over HTTP. An error of SQL is an answer with another `sqlState`; HTTP statuses are for requests that never became a
statement.

Rows of a live result come over a WebSocket at `/v2/statements/{statement_id}`, where OpenAPI has no words for it: the answer's
`dataplaneRequest` names the address and a token, which is sent in the first frame."""
_EVERYWHERE = {
    "400": "The request cannot be read.",
    "403": "The caller is not allowed: no token, a wrong one, or a foreign page.",
}


def document(app: FastAPI) -> dict[str, Any]:
    """Return all routes of `app` but the page's files and the WebSocket."""
    schema = get_openapi(title="Headrace", version=__version__, description=_DESCRIPTION, routes=app.routes)
    schemas: dict[str, Any] = schema.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas.update(_models(StatementRequest, Refused))
    schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    schema["security"] = [{"token": []}]
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            if path in probes.PATHS or signin.is_sign_in({"method": method.upper(), "path": path}):
                operation["security"] = []
            answers = operation["responses"]
            # FastAPI documents 422 for requests that it cannot parse, and `failures` returns 400.
            answers.pop("422", None)
            for status, meaning in _EVERYWHERE.items():
                answers.setdefault(status, _refusal(meaning))
    return schema


def _models(*models: type[BaseModel]) -> dict[str, Any]:
    _, generated = models_json_schema([(model, "validation") for model in models], ref_template=_SCHEMAS)
    definitions: dict[str, Any] = generated["$defs"]
    return definitions


def _refusal(meaning: str) -> dict[str, Any]:
    schema = {"$ref": _SCHEMAS.format(model=Refused.__name__)}
    return {"description": meaning, "content": {"application/json": {"schema": schema}}}
