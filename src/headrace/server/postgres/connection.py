"""Messages of the simple and the extended protocol, on a connection whose client has signed in."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import structlog

from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.core.wording import counted
from headrace.server.postgres import messages
from headrace.server.postgres.answer import HELD_ROWS_MAX, Answer, first_words, is_cancellable
from headrace.server.postgres.copy_format import CopyFormat
from headrace.server.postgres.dispatch import Dispatch
from headrace.server.postgres.errors import (
    FatalError,
    PostgresError,
    converted,
    protocol_violation,
)
from headrace.server.postgres.messages import Fields, decoded
from headrace.server.postgres.parameters import Bound, Prepared, prepared
from headrace.server.postgres.types import TEXT, Cell, Codecs, Column, encoders, parameter
from headrace.server.postgres.variables import REPORTED
from headrace.server.postgres.wire import Wire
from headrace.sql.splitting import split

log = structlog.get_logger()

T = TypeVar("T")
STATEMENTS_MAX = 1024
PORTALS_MAX = 64
"""Prepared statements and portals of a connection."""

_CANCELLED = "57014"
_COUNTED = ("SELECT", "FETCH")
"""Tags that end with the number of rows."""


@dataclass
class Portal:
    """A prepared statement with values, and its answer once it has run. `hides_rows` as for the statement."""

    statement: Prepared
    values: tuple[Bound, ...] = field(repr=False)
    formats: tuple[int, ...]
    answer: Answer | None = None
    hides_rows: bool = False
    sent: int = 0

    @cached_property
    def is_cancellable(self) -> bool:
        """True if the statement changes nothing."""
        return is_cancellable(first_words(self.statement.text))

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """The columns of the answer; None if it has none or copies them, or before the statement ran."""
        return self.answer.columns if self.answer is not None and self.answer.copy is None else None

    def formats_of(self, columns: tuple[Column, ...]) -> list[int]:
        """Return the format of each column. Raises PostgresError 08P01 for another number of formats than of columns."""
        if len(self.formats) <= 1:
            return [*(self.formats or (0,))] * len(columns)
        if len(self.formats) != len(columns):
            raise PostgresError(
                "08P01",
                f"expected a format for each of {counted(len(columns), 'column')}, found {len(self.formats)}",
            )
        return list(self.formats)


class Connection:
    """Serves the messages of a client that has signed in."""

    def __init__(self, wire: Wire, dispatch: Dispatch, settings: Settings) -> None:
        self._wire = wire
        self._dispatch = dispatch
        self._bytes_max = settings.request_bytes_max
        self._statements = dispatch.state.prepared
        self._portals: dict[str, Portal] = {}
        self._pending: Portal | None = None
        self._reported: dict[str, str] = {}
        self._cancellable: asyncio.Task[Any] | None = None
        self._is_cancelled = False
        wire.lost = self._interrupt

    def cancel(self) -> None:
        """Cancel the statement that runs, if it only reads: others are never left half done."""
        if self._cancellable is not None:
            self._is_cancelled = True
            self._interrupt()

    async def serve(self) -> None:
        """Answer messages until the client ends the connection. Raises ConnectionError and FatalError."""
        self.report()
        self._wire.write(messages.ready(self._dispatch.state.transaction))
        await self._wire.flush()
        is_skipping = False
        while True:
            kind, body = await self._message()
            if kind == b"X":
                return
            if is_skipping and kind != b"S":
                continue
            is_skipping = False
            try:
                await self._handle(kind, Fields(body))
            except FatalError:
                raise
            except Exception as error:  # noqa: BLE001 - reported to the client, and logged if it is a defect
                await self._failed(error)
                is_skipping = kind not in (b"Q", b"S")
                if kind == b"Q":
                    await self._ready()

    def report(self) -> None:
        """Send the settings that have changed since they were sent."""
        for key, name in REPORTED.items():
            value = self._dispatch.state.variables.get(key) or ""
            if self._reported.get(key) != value:
                self._reported[key] = value
                self._wire.write(messages.parameter_status(name, value))

    async def close(self) -> None:
        """End all results."""
        await self._close_portals()
        await self._dispatch.state.cursors.close_all()

    # --- messages

    async def _message(self) -> tuple[bytes, bytes]:
        head = await self._wire.read(5)
        size = int.from_bytes(head[1:], signed=True)
        if size < 4 or head[:1] not in _HANDLERS:
            raise protocol_violation("a message has an unknown type or an impossible length")
        if size - 4 > self._bytes_max:
            raise protocol_violation(
                f"expected messages of at most {self._bytes_max} bytes, found {size - 4}"
            )
        return head[:1], await self._wire.read(size - 4)

    async def _handle(self, kind: bytes, fields: Fields) -> None:
        if self._pending is not None and kind != b"E":
            await self._describe_pending()
        await _HANDLERS[kind](self, fields)

    async def _failed(self, error: Exception) -> None:
        state = self._dispatch.state
        if state.transaction == "T":
            state.transaction = "E"
        self._pending = None
        self._wire.write(messages.error_response(as_response(error)))
        await self._wire.flush()

    async def _ready(self) -> None:
        if self._dispatch.state.transaction == "I":
            await self._close_portals()
        self.report()
        self._wire.write(messages.ready(self._dispatch.state.transaction))
        await self._wire.flush()

    async def _query(self, fields: Fields) -> None:
        text = fields.text()
        fields.end()
        pieces = split(text)
        if not pieces:
            self._wire.write(messages.EMPTY_QUERY)
        for start, end in pieces:
            portal = Portal(Prepared(text[start:end], ()), (), ())
            try:
                await self._run(portal)
                if portal.columns is not None:
                    self._announce(portal)
                await self._send(portal, 0)
            except PostgresError as error:
                error.position = error.position and error.position + start
                raise
            finally:
                await self._close_answer(portal)
        await self._ready()

    async def _parse(self, fields: Fields) -> None:
        name, text = fields.text(), fields.text()
        oids = [fields.int32() & 0xFFFFFFFF for _ in range(fields.count(4))]
        fields.end()
        pieces = split(text)
        if len(pieces) > 1:
            raise PostgresError(
                "42601", "a prepared statement is one statement, found several", position=pieces[1][0] + 1
            )
        if name and name in self._statements:
            raise PostgresError("42P05", f"the prepared statement {name[:100]} already exists")
        size = len(text) + sum(len(held.text) for held in self._statements.values())
        if len(self._statements) >= STATEMENTS_MAX or size > self._bytes_max:
            raise PostgresError(
                "53000",
                f"a connection has at most {STATEMENTS_MAX} prepared statements of {self._bytes_max} characters in all",
                hint="Close the statements that are no longer needed.",
            )
        self._statements[name] = prepared(text if pieces else "", oids)
        self._wire.write(messages.PARSED)

    async def _bind(self, fields: Fields) -> None:
        portal, name = fields.text(), fields.text()
        formats = [fields.int16() for _ in range(fields.count(2))]
        count = fields.count(4)
        contents = [fields.bytes(size) if (size := fields.int32()) >= 0 else None for _ in range(count)]
        result_formats = tuple(fields.int16() for _ in range(fields.count(2)))
        fields.end()
        statement = self._prepared(name)
        if count != len(statement.oids) or len(formats) not in (0, 1, count):
            raise PostgresError(
                "08P01",
                f"the statement has {counted(len(statement.oids), 'parameter')}, found {count} with {counted(len(formats), 'format')}",
            )
        for form in (*formats, *result_formats):
            if form not in (0, 1):
                raise PostgresError("08P01", f"expected format 0 (text) or 1 (binary), found {form}")
        if portal and portal in self._portals:
            raise PostgresError("42P03", f"the portal {portal[:100]} already exists")
        if len(self._portals) >= PORTALS_MAX:
            raise PostgresError("53000", f"a connection has at most {PORTALS_MAX} portals")
        formats = formats * count if len(formats) == 1 else formats or [0] * count
        values = tuple(
            Bound(oid, parameter(oid, form, content, decoded) if content is not None else None)
            for oid, form, content in zip(statement.oids, formats, contents, strict=True)
        )
        if portal in self._portals:
            await self._close_answer(self._portals[portal])
        self._portals[portal] = Portal(statement, values, result_formats, hides_rows=statement.hides_rows)
        self._wire.write(messages.BOUND)

    async def _describe(self, fields: Fields) -> None:
        kind, name = fields.bytes(1), fields.text()
        fields.end()
        if kind == b"P":
            self._describe_portal(name)
            return
        if kind != b"S":
            raise protocol_violation("expected the description of a statement or a portal")
        statement = self._prepared(name)
        self._wire.write(messages.parameter_description([oid or TEXT for oid in statement.oids]))
        columns = None
        if statement.text:
            describing = self._dispatch.describe(statement.text, statement.blanks)
            can_end = is_cancellable(first_words(statement.text))
            columns = await self._interruptible(describing, is_cancellable=can_end)
        statement.hides_rows = columns is None
        if columns is None:
            self._wire.write(messages.NO_DATA)
        else:
            self._wire.write(_description(columns, [0] * len(columns)))

    def _describe_portal(self, name: str) -> None:
        """Describe a cursor at once, and a portal as soon as it is known whether it is executed next."""
        cursor = self._dispatch.state.cursors.find(name) if name not in self._portals else None
        if cursor is None:
            self._pending = self._portal(name)
        else:
            columns = cursor.answer.columns or ()
            self._wire.write(_description(columns, [0] * len(columns)))

    async def _describe_pending(self) -> None:
        """Describe a portal that is not executed at once: run it if it only reads; others are said to return nothing."""
        portal, self._pending = self._pending, None
        if portal is None:
            return
        if portal.statement.text and portal.answer is None and portal.is_cancellable:
            await self._run(portal)
        self._announce(portal)

    async def _execute(self, fields: Fields) -> None:
        portal, most = self._portal(fields.text()), fields.int32()
        fields.end()
        pending, self._pending = self._pending, None
        if pending is not None and pending is not portal:
            self._pending = pending
            await self._describe_pending()
            pending = None
        if not portal.statement.text:
            if pending is not None:
                self._wire.write(messages.NO_DATA)
            self._wire.write(messages.EMPTY_QUERY)
            return
        if portal.answer is None:
            await self._run(portal)
        else:
            # Rows may be lost if reading them failed, and a result that ends early would look complete.
            self._dispatch.state.refuse_failed()
        if pending is not None:
            self._announce(portal)
        await self._send(portal, max(most, 0))

    async def _close(self, fields: Fields) -> None:
        kind, name = fields.bytes(1), fields.text()
        fields.end()
        if kind == b"S":
            self._statements.pop(name, None)
        elif kind == b"P":
            closed = self._portals.pop(name, None)
            if closed is not None:
                await self._close_answer(closed)
        else:
            raise protocol_violation("expected to close a statement or a portal")
        self._wire.write(messages.CLOSED)

    async def _sync(self, fields: Fields) -> None:
        fields.end()
        await self._ready()

    async def _flush(self, fields: Fields) -> None:
        fields.end()
        await self._wire.flush()

    async def _ignore(self, _fields: Fields) -> None:
        """Ignore the data of a COPY that was refused."""

    async def _refuse(self, _fields: Fields) -> None:
        raise PostgresError("0A000", "function calls by the protocol are not supported", hint="Use SELECT.")

    # --- statements

    async def _run(self, portal: Portal) -> None:
        """Run the portal's statement, and keep its answer."""
        running = self._dispatch.run(portal.statement.text, portal.values)
        answer = await self._interruptible(running, is_cancellable=portal.is_cancellable)
        portal.answer = answer
        if answer.notice:
            self._wire.write(messages.notice_response(PostgresError("00000", answer.notice)))

    def _announce(self, portal: Portal) -> None:
        columns = portal.columns
        portal.hides_rows = columns is None
        if columns is None:
            self._wire.write(messages.NO_DATA)
        else:
            self._wire.write(_description(columns, portal.formats_of(columns)))

    async def _send(self, portal: Portal, most: int) -> None:
        """Send the next rows of a portal, `most` at a time (0: all), and whether there may be more."""
        answer = portal.answer
        if answer is not None and answer.copy is not None:
            await self._copy_out(portal, answer, answer.copy)
            return
        if answer is None or answer.columns is None or portal.hides_rows:
            self._wire.write(messages.command_complete(answer.tag if answer else ""))
            return
        codecs = encoders(answer.columns, portal.formats_of(answer.columns))
        left = most or None
        while not answer.is_over:
            rows = await self._more(answer, left)
            if not rows:
                break
            portal.sent += len(rows)
            for row in rows:
                await self._wire.write_rows(messages.data_row(_encoded(row, codecs)))
            if left is not None:
                left -= len(rows)
                if left == 0:
                    self._refuse_many()
                    self._wire.write(messages.SUSPENDED)
                    return
            if answer.live is not None:
                await self._wire.flush()
        counted = f"{answer.tag} {portal.sent}" if answer.tag in _COUNTED else answer.tag
        self._wire.write(messages.command_complete(counted))

    async def _copy_out(self, portal: Portal, answer: Answer, copy: CopyFormat) -> None:
        """Send all rows of an answer as lines."""
        columns = answer.columns or ()
        names = [column.name for column in columns]
        codecs, line = encoders(columns, [0] * len(columns)), copy.lines(names)
        self._wire.write(messages.copy_out(len(columns)))
        if copy.has_header:
            self._wire.write(messages.copy_data(copy.header(names)))
        while not answer.is_over:
            rows = await self._more(answer)
            portal.sent += len(rows)
            for row in rows:
                await self._wire.write_rows(messages.copy_data(line(_encoded(row, codecs))))
            if answer.live is not None:
                await self._wire.flush()
        self._wire.write(messages.COPY_DONE + messages.command_complete(f"COPY {portal.sent}"))

    async def _more(self, answer: Answer, most: int | None = None) -> Sequence[Sequence[Cell]]:
        reason = self._dispatch.lost(answer)
        if reason is not None:
            raise PostgresError("42501", f"the result was ended: {reason}")
        # Rows in memory are not waited for, and need no task.
        more = answer.more(most)
        return await (more if answer.held else self._interruptible(more, is_cancellable=True))

    def _refuse_many(self) -> None:
        held = sum(portal.answer.held for portal in self._portals.values() if portal.answer)
        if held > HELD_ROWS_MAX:
            raise PostgresError(
                "53000", f"a connection has at most {HELD_ROWS_MAX} rows in suspended portals"
            )

    async def _close_portals(self) -> None:
        for portal in self._portals.values():
            await self._close_answer(portal)
        self._portals.clear()

    async def _close_answer(self, portal: Portal) -> None:
        answer, portal.answer = portal.answer, None
        if answer is not None:
            await asyncio.shield(answer.close())

    def _prepared(self, name: str) -> Prepared:
        if name not in self._statements:
            raise PostgresError("26000", f"the prepared statement {name[:100]!r} does not exist")
        return self._statements[name]

    def _portal(self, name: str) -> Portal:
        if name not in self._portals:
            raise PostgresError("34000", f"the portal {name[:100]!r} does not exist")
        return self._portals[name]

    async def _interruptible(self, work: Coroutine[Any, Any, T], *, is_cancellable: bool) -> T:
        """Await `work`, which a request to cancel, the time limit and a lost client end if it `is_cancellable`."""
        if not is_cancellable:
            return await work
        task = asyncio.ensure_future(work)
        self._cancellable = task
        try:
            async with asyncio.timeout(self._dispatch.state.variables.timeout_s):
                return await task
        except TimeoutError:
            raise PostgresError(_CANCELLED, "the statement took longer than statement_timeout") from None
        except asyncio.CancelledError:
            if not self._is_cancelled:
                raise
            raise PostgresError(_CANCELLED, "the statement was cancelled by a request of the user") from None
        finally:
            self._cancellable, self._is_cancelled = None, False

    def _interrupt(self) -> None:
        if self._cancellable is not None:
            self._cancellable.cancel()


def as_response(error: Exception) -> PostgresError:
    """Return the response to an error; an unexpected one is a fault of the server, whose trace is in its log."""
    if isinstance(error, PostgresError):
        return error
    if isinstance(error, HeadraceError):
        return converted(error)
    if isinstance(error, ConnectionError):
        raise error
    error_id = str(uuid.uuid4())
    log.error("postgres_broke", error_id=error_id, exc_info=error)
    return PostgresError(
        "XX000", f"internal server error; the server's log contains the details under {error_id}"
    )


def _encoded(row: Sequence[Cell], codecs: Codecs) -> list[bytes | None]:
    return [
        None if cell is None else encode(cell if convert is None else convert(cell))
        for cell, (convert, encode) in zip(row, codecs, strict=True)
    ]


def _description(columns: tuple[Column, ...], formats: list[int]) -> bytes:
    return messages.row_description(
        [
            (column.name, column.oid, column.size, column.modifier, form)
            for column, form in zip(columns, formats, strict=True)
        ]
    )


_HANDLERS: dict[bytes, Callable[[Connection, Fields], Awaitable[None]]] = {
    b"Q": Connection._query,
    b"P": Connection._parse,
    b"B": Connection._bind,
    b"D": Connection._describe,
    b"E": Connection._execute,
    b"C": Connection._close,
    b"S": Connection._sync,
    b"H": Connection._flush,
    b"F": Connection._refuse,
    **dict.fromkeys((b"d", b"c", b"f", b"X"), Connection._ignore),
}
