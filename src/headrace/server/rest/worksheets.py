"""Saving and deleting worksheets; `deltastream.sys.worksheets` reads them (docs/adr/0084)."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from headrace.catalog.worksheets import WorksheetContent
from headrace.core.errors import UserError
from headrace.server.auth import principal_of
from headrace.server.failures import Refused
from headrace.server.ports import WorksheetStore

TEXT_MAX = 100_000
"""Characters of one text."""
_VERSION_MAX = 2**53

_Name = Annotated[str, Field(max_length=1024)]


class WorksheetDraft(BaseModel):
    """A worksheet to save: name, text, and the names of the session that the text is run in."""

    model_config = ConfigDict(frozen=True)

    name: Annotated[str, Field(min_length=1, max_length=200)]
    text: Annotated[str, Field(max_length=TEXT_MAX, repr=False)]
    open: bool = True
    version: Annotated[int, Field(ge=0, le=_VERSION_MAX)] = Field(
        0, description="The version that the writer has read; 0 for a new worksheet."
    )
    role: _Name | None = None
    database: _Name | None = None
    # The wire says "schema", which pydantic's base class uses itself.
    schema_name: _Name | None = Field(None, alias="schema")
    store: _Name | None = None
    compute_pool: _Name | None = Field(None, alias="computePool")

    @property
    def content(self) -> WorksheetContent:
        """The stored content."""
        return WorksheetContent(
            self.name,
            self.text,
            self.role,
            self.database,
            self.schema_name,
            self.store,
            self.compute_pool,
        )


class SavedWorksheet(BaseModel):
    """The version that was saved."""

    version: int
    replaced: bool = Field(description="True if it replaced a version that the writer had not read.")


_SAVED: dict[int | str, dict[str, Any]] = {
    200: {"model": SavedWorksheet, "description": "The worksheet was saved: the last writer wins."},
    400: {"model": Refused, "description": "The request cannot be read, or the text is too long."},
    404: {"model": Refused, "description": "The id belongs to a worksheet that is not yours."},
    409: {"model": Refused, "description": "Too many worksheets are open."},
}
_DELETED: dict[int | str, dict[str, Any]] = {
    204: {"description": "The worksheet was deleted."},
    404: {"model": Refused, "description": "You have no worksheet with this id."},
}


def router(worksheets: WorksheetStore) -> APIRouter:
    """Return the routes, which reach only the worksheets of the principal's user."""
    routes = APIRouter(prefix="/v2/worksheets")

    @routes.put("/{worksheet_id}", summary="Save a worksheet", responses=_SAVED)
    async def save(request: Request, worksheet_id: UUID, draft: WorksheetDraft) -> Response:
        principal = principal_of(request)
        try:
            saved = await asyncio.to_thread(
                worksheets.save,
                principal,
                str(worksheet_id),
                draft.content,
                is_open=draft.open,
                seen=draft.version,
            )
        except UserError as error:
            raise HTTPException(409, f"{error.message}. {error.hint}") from None
        if saved is None:
            raise _missing(worksheet_id)
        return JSONResponse({"version": saved.version, "replaced": saved.has_replaced})

    @routes.delete("/{worksheet_id}", status_code=204, summary="Delete a worksheet", responses=_DELETED)
    async def delete(request: Request, worksheet_id: UUID) -> Response:
        if not await asyncio.to_thread(worksheets.delete, principal_of(request), str(worksheet_id)):
            raise _missing(worksheet_id)
        return Response(status_code=204)

    return routes


def _missing(worksheet_id: UUID) -> HTTPException:
    return HTTPException(404, f"the worksheet {worksheet_id} does not exist, or is not yours")
