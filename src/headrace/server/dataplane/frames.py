"""The text frames of a stream, as JSON, in the manner that each client reads (client-contract, facts 4 to 7)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from enum import Enum

from headrace.core.errors import HeadraceError
from headrace.core.resultset import LiveRows, ResultColumn

# ASCII only: a lone surrogate in the data cannot be encoded as UTF-8.
_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode

_MESSAGE_BYTES = 64 * 1024
PYTHON_FRAME_BYTES_MAX = 1024 * 1024
"""What the public Python client reads of one frame before it closes the socket."""


class Manners(Enum):
    """A client's convention for errors and the end of a stream, recognized by its User-Agent.

    PYTHON is the public Python client: an error has exactly four keys, one of them `sql_code`. PUBLIC are the public Go and
    TypeScript clients: `sqlCode` at the top for one, in a nested `error` for the other. OWN are our page and client,
    which read the same frames and handle a normal close. The public clients wait forever or fail on a normal close, so the end of
    a stream is sent to them as an error.
    """

    PYTHON = "python"
    PUBLIC = "public"
    OWN = "own"


def manners(user_agent: str) -> Manners:
    """Return the manners of the client with this User-Agent; the TypeScript client sends none."""
    if user_agent.startswith("Python/") and " websockets/" in user_agent:
        return Manners.PYTHON
    return Manners.OWN if user_agent.startswith(("headrace/", "Mozilla/")) else Manners.PUBLIC


def metadata_frame(columns: Sequence[ResultColumn], changelog_key: Sequence[str] | None = None) -> str:
    """Return the first frame: the columns, and for a changelog its key columns (empty if the key is not selected)."""
    described = [
        {"name": column.name, "type": str(column.type), "nullable": column.nullable} for column in columns
    ]
    # Clients take headers for texts: a list is one as JSON.
    headers = (
        {} if changelog_key is None else {"relationType": "CHANGELOG", "primaryKey": _encode(changelog_key)}
    )
    return _encode({"type": "metadata", "headers": headers, "columns": described})


def data_frames(rows: LiveRows) -> Iterator[str]:
    """Yield a frame for each row; in a changelog, the header `op` is the kind of change (`core.resultset.RowKind`)."""
    for index, row in enumerate(rows.cells):
        headers = f'{{"op":"{rows.kinds[index]}"}}' if rows.kinds else "{}"
        yield f'{{"type":"data","headers":{headers},"data":{_encode(row)}}}'


def data_lines(rows: LiveRows) -> Iterator[str]:
    """Yield the frames of rows as lines of few messages: for a client that asks for them, since a browser spends more on a message than on
    a row. A message has about 64 KiB at most, or one row."""
    lines: list[str] = []
    size = 0
    for frame in data_frames(rows):
        if lines and size + len(frame) > _MESSAGE_BYTES:
            yield "\n".join(lines)
            lines, size = [], 0
        lines.append(frame)
        size += len(frame)
    yield "\n".join(lines)


def error_frame(error: HeadraceError, to: Manners) -> str:
    """Return the last frame of a failed stream."""
    code, message = error.state.value, error.text()
    frame: dict[str, object] = {"type": "error", "headers": {}, "message": message}
    if to is Manners.PYTHON:
        return _encode({**frame, "sql_code": code})
    return _encode({**frame, "sqlCode": code, "error": {"message": message, "sqlCode": code}})
