"""Files of function sources, which stay in the database, and the code of functions by its digest."""

from __future__ import annotations

import hashlib

from sqlalchemy import Column, insert, select

from headrace.catalog import tables
from headrace.catalog.kinds.function import FUNCTION, FUNCTION_SOURCE
from headrace.catalog.objects import FunctionSource
from headrace.catalog.storage import Storage
from headrace.core.errors import UserError


def add(storage: Storage, source: FunctionSource, content: bytes, library: bytes | None) -> None:
    """Store the file of a new function source, and the file of its libraries if it has any."""
    row = {"object": source.id, "content": content, "library": library}
    storage.execute(insert(tables.files).values(row))


def content(storage: Storage, source: FunctionSource) -> bytes:
    """Return the file of a function source. Raises 3D018 if the source does not exist."""
    return _stored(storage, source, tables.files.c.content)


def library(storage: Storage, source: FunctionSource) -> bytes | None:
    """Return the file with the libraries of a function source, None if it has none. Raises 3D018 if the source does not exist."""
    return _stored(storage, source, tables.files.c.library) if source.library is not None else None


def of_digest(storage: Storage, digest: str) -> bytes | None:
    """Return the code of a function by its SHA-256, a JAR or a text; None without one."""
    for source in storage.state.all(FUNCTION_SOURCE, ()):
        if digest == source.digest:
            return content(storage, source)
        if digest == source.library:
            return library(storage, source)
    functions = storage.state.all(FUNCTION, ())
    codes = (function.code.encode() for function in functions if function.code is not None)
    return next((code for code in codes if hashlib.sha256(code).hexdigest() == digest), None)


def _stored(storage: Storage, source: FunctionSource, column: Column[bytes]) -> bytes:
    rows = storage.rows(select(column).where(tables.files.c.object == source.id))
    if not rows:
        message = f"{FUNCTION_SOURCE.described((source.name,))} does not exist"
        raise UserError(FUNCTION_SOURCE.missing, message)
    return bytes(rows[0][column.name])
