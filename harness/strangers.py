"""Messages of callers without credentials, for each protocol of the processes, and the answers that refuse them."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress

from harness.patience import PATIENCE_S

UNWANTED_CLASS = "no.such.UnwantedClass"
PADDING = b"\n" * 256
"""Ends the line, or makes an impossible frame, for those who wait for the rest: then they close the connection."""


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def _frame(kind: int, body: bytes) -> bytes:
    """A message of Spark's transport."""
    return struct.pack(">qB", 9 + len(body), kind) + body + PADDING


def _remote_call(port: int) -> bytes:
    """Return a message for Spark's RPC: an object of a class that the caller chose."""
    receiver = b"\0\1" + _text("127.0.0.1") + struct.pack(">i", port) + _text("endpoint-verifier")
    serialised = b"\xac\xed\0\5sr" + _text(UNWANTED_CLASS) + bytes(7) + b"\1\2\0\0xp"
    content = receiver + serialised
    return _frame(3, struct.pack(">qi", 7, len(content)) + content)


def _file_request(_port: int) -> bytes:
    return _frame(6, struct.pack(">i", 8) + b"/files/x")


def _command(_port: int) -> bytes:
    """Return a command for py4j on either side: call the first object."""
    return b"c\np0\ncall\nro0\ne\n" * 8 + PADDING


def _browser(port: int) -> bytes:
    """Return the request that a page of another site can send: its own text follows a head that it cannot choose."""
    head = f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: text/plain\r\nContent-Length: 400\r\n\r\n"
    return head.encode() + _command(port)


STRANGERS = (_remote_call, _file_request, _command, _browser)
REFUSALS = (
    b"Unknown challenge message",
    b"Unauthenticated call to stream manager",
    b"Authentication error",
    b"Unknown command received",
)
"""What a stranger may be told, if not nothing; the connection is closed in any case."""


def reply_to(address: tuple[str, int], message: bytes) -> bytes:
    """Return all bytes until the other side closes the connection."""
    received = b""
    with socket.create_connection(address, timeout=PATIENCE_S) as connection, suppress(ConnectionError):
        connection.sendall(message)
        while part := connection.recv(4096):
            received += part
    return received
