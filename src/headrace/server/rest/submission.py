"""Reading a submitted statement: JSON, or the three shapes in which clients send multipart forms.

The Go client sends the part `request` with a content type and no file name, Python as a plain field, TypeScript as a file
called `blob` (client-contract section 1.1). Attachments are files; statements refer to them by file name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Annotated, TypeVar

from fastapi import Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from headrace.core.context import SessionContext

R = TypeVar("R", bound="StatementRequest")
ATTACHMENTS_MAX = 16
FIELDS_MAX = 16

# Clients leave fields out, send null or send "" for what is not set.
_Name = Annotated[
    Annotated[str, Field(max_length=1024)] | None,
    BeforeValidator(lambda value: None if value == "" else value),
]


class Parameters(BaseModel):
    """Parameters of the session; sessions take turns, and requests without an id share one."""

    model_config = ConfigDict(frozen=True)

    timezone: _Name = None
    session_id: _Name = Field(None, alias="sessionID")


class StatementRequest(BaseModel):
    """A client's submission. Names are case-sensitive and unquoted; unknown fields are ignored."""

    model_config = ConfigDict(frozen=True)

    statement: str = Field(repr=False)
    organization: _Name = None
    role: _Name = None
    database: _Name = None
    # The wire says "schema", which pydantic's base class uses itself.
    schema_name: _Name = Field(None, alias="schema")
    store: _Name = None
    compute_pool: _Name = Field(None, alias="computePool")
    parameters: Annotated[Parameters, BeforeValidator(lambda value: {} if value is None else value)] = (
        Parameters()
    )

    @property
    def context(self) -> SessionContext:
        """The names to run in; the organization is empty when the client names none."""
        return SessionContext(
            organization_id=self.organization or "",
            role=self.role,
            database=self.database,
            schema=self.schema_name,
            store=self.store,
            compute_pool=self.compute_pool,
            timezone=self.parameters.timezone or "UTC",
        )


class CompletionRequest(StatementRequest):
    """A text and a position in it, in code points from 0; without an `offset`, the position is its end."""

    offset: Annotated[int, Field(ge=0)] | None = None


@dataclass(frozen=True)
class Submission:
    """A statement, and the files that came with it, by their names without folders."""

    request: StatementRequest
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)


async def read_completion(request: Request) -> CompletionRequest:
    """Parse a request for completion, which is JSON; raises HTTPException 400 if it cannot be read."""
    return _validated(CompletionRequest, await request.body())


async def read_submission(request: Request, *, bytes_max: int) -> Submission:
    """Parse the submission; raises HTTPException 400 if it cannot be read."""
    files: dict[str, bytes] = {}
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type == "multipart/form-data":
        body, files = await _form_parts(request, bytes_max)
    elif content_type == "application/json":
        body = await request.body()
    else:
        raise HTTPException(
            400,
            f"expected multipart/form-data or application/json, found {content_type or 'no content type'}",
        )
    return Submission(_validated(StatementRequest, body), files)


def _validated(model: type[R], body: bytes | str) -> R:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        # The input is left out of the text: it may hold secrets.
        problems = "; ".join(
            f"{'.'.join(str(part) for part in item['loc']) or 'request'}: {item['msg']}"
            for item in error.errors(include_input=False, include_url=False, include_context=False)
        )
        raise HTTPException(400, f"the request cannot be read: {problems}") from None


async def _form_parts(request: Request, bytes_max: int) -> tuple[bytes | str, dict[str, bytes]]:
    # The framework's own limit for one part is 1 MiB, too small for long SQL; the body as a whole is limited already.
    async with request.form(
        max_files=ATTACHMENTS_MAX, max_fields=FIELDS_MAX, max_part_size=bytes_max
    ) as form:
        files: dict[str, bytes] = {}
        for attachment in form.getlist("attachments"):
            if isinstance(attachment, UploadFile):
                # Some clients name an attachment as its statement does: '@path'.
                name = PurePosixPath((attachment.filename or "").removeprefix("@")).name
                if not name or name in files:
                    raise HTTPException(400, "expected attachments with different names")
                files[name] = await attachment.read()
        part = form.get("request")
        if part is None:
            raise HTTPException(400, "expected a form part named request, found none")
        return await part.read() if isinstance(part, UploadFile) else part, files
