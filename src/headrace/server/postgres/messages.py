"""Format of the messages of PostgreSQL's protocol, version 3: fields of what clients send, and the bytes of what the server sends."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from headrace.server.postgres.errors import PostgresError, protocol_violation

PROTOCOL_VERSION = 3 << 16
CANCEL_REQUEST, SSL_REQUEST, GSS_REQUEST = 80877102, 80877103, 80877104
"""Codes in the place of a protocol version."""

_INT16, _INT32, _HEAD = struct.Struct("!h"), struct.Struct("!i"), struct.Struct("!ci")
NULL = _INT32.pack(-1)


class Fields:
    """Reads the fields of a message in order; raises FatalError 08P01 for a message that is too short or has other content."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def int16(self) -> int:
        """Read a signed number of two bytes."""
        return int(_INT16.unpack(self.bytes(2))[0])

    def int32(self) -> int:
        """Read a signed number of four bytes."""
        return int(_INT32.unpack(self.bytes(4))[0])

    def bytes(self, size: int) -> bytes:
        """Read `size` bytes."""
        end = self._at + size
        if size < 0 or end > len(self._body):
            raise protocol_violation("a message is shorter than its fields")
        part = self._body[self._at : end]
        self._at = end
        return part

    def text(self) -> str:
        """Read a text that ends with a zero byte."""
        end = self._body.find(b"\0", self._at)
        if end < 0:
            raise protocol_violation("a text in a message has no end")
        part = self._body[self._at : end]
        self._at = end + 1
        return decoded(part)

    def count(self, width: int) -> int:
        """Read a number of items of at least `width` bytes each."""
        number = int(_INT16.unpack(self.bytes(2))[0]) & 0xFFFF
        if number * width > len(self._body) - self._at:
            raise protocol_violation("a message has fewer items than it announces")
        return number

    @property
    def is_over(self) -> bool:
        """True if every field was read."""
        return self._at >= len(self._body)

    def end(self) -> None:
        """Raise FatalError 08P01 if fields are left."""
        if not self.is_over:
            raise protocol_violation("a message is longer than its fields")


def decoded(content: bytes) -> str:
    """Return UTF-8 as text. Raises PostgresError 22021 for other bytes."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise PostgresError("22021", "expected text in UTF-8, found other bytes") from None


def encoded(text: str) -> bytes:
    """Return text as UTF-8; lone surrogates, which some stores contain, become question marks."""
    return text.encode("utf-8", "replace")


def message(kind: bytes, body: bytes = b"") -> bytes:
    """Return a message of the server."""
    return _HEAD.pack(kind, len(body) + 4) + body


def zero_ended(*texts: str) -> bytes:
    """Return texts with a zero byte after each; zero bytes inside are left out."""
    return b"".join(encoded(text).replace(b"\0", b"") + b"\0" for text in texts)


CLEARTEXT_PASSWORD = message(b"R", _INT32.pack(3))
AUTHENTICATED = message(b"R", _INT32.pack(0))
SASL, SASL_CONTINUE, SASL_FINAL = 10, 11, 12
"""Codes of the messages of a sign-in by SASL."""
COPY_DONE = message(b"c")
PARSED, BOUND, CLOSED = message(b"1"), message(b"2"), message(b"3")
NO_DATA, SUSPENDED, EMPTY_QUERY = message(b"n"), message(b"s"), message(b"I")


def sasl(content: bytes, code: int) -> bytes:
    """Return a message of a sign-in by SASL."""
    return message(b"R", _INT32.pack(code) + content)


def older_protocol(options: Iterable[str]) -> bytes:
    """Return the answer to a client that asks for a newer minor version, or for these unknown options of the protocol."""
    names = tuple(options)
    return message(b"v", _INT32.pack(PROTOCOL_VERSION) + _INT32.pack(len(names)) + zero_ended(*names))


def parameter_status(name: str, value: str) -> bytes:
    """Return the current value of a setting."""
    return message(b"S", zero_ended(name, value))


def backend_key(process: int, secret: int) -> bytes:
    """Return the key for requests to cancel statements of this connection."""
    return message(b"K", struct.pack("!II", process, secret))


def ready(status: str) -> bytes:
    """Return that the next statement may come; `status` is I, T or E."""
    return message(b"Z", status.encode())


def command_complete(tag: str) -> bytes:
    """Return the end of a statement's result."""
    return message(b"C", zero_ended(tag))


def parameter_description(oids: Sequence[int]) -> bytes:
    """Return the types of a statement's parameters."""
    return message(b"t", struct.pack("!H", len(oids)) + b"".join(struct.pack("!I", oid) for oid in oids))


def row_description(columns: Sequence[tuple[str, int, int, int, int]]) -> bytes:
    """Return the columns of a result: name, type's OID, its size (-1: variable), its modifier (-1: none), and format of each."""
    described = (
        zero_ended(name) + struct.pack("!IhIhih", 0, 0, oid, size, modifier, form)
        for name, oid, size, modifier, form in columns
    )
    return message(b"T", struct.pack("!H", len(columns)) + b"".join(described))


def data_row(cells: Sequence[bytes | None]) -> bytes:
    """Return a row."""
    parts = [struct.pack("!H", len(cells))]
    for cell in cells:
        if cell is None:
            parts.append(NULL)
        else:
            parts += (_INT32.pack(len(cell)), cell)
    return message(b"D", b"".join(parts))


def copy_out(columns: int) -> bytes:
    """Return that the lines of this number of columns follow, in a text format."""
    return message(b"H", struct.pack("!bH", 0, columns) + bytes(2 * columns))


def copy_data(line: bytes) -> bytes:
    """Return a line of COPY."""
    return message(b"d", line)


def error_response(error: PostgresError, severity: str = "ERROR") -> bytes:
    """Return an error."""
    return message(b"E", _report(error, severity))


def notice_response(error: PostgresError) -> bytes:
    """Return a notice."""
    return message(b"N", _report(error, "NOTICE"))


def _report(error: PostgresError, severity: str) -> bytes:
    fields = {
        "S": severity,
        "V": severity,
        "C": error.state,
        "M": error.message,
        "H": error.hint,
        "P": str(error.position) if error.position is not None else None,
    }
    return zero_ended(*(code + text for code, text in fields.items() if text)) + b"\0"
