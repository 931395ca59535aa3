"""The driver's end of the socket: frames in and out, and waiting for the answers to `Rows` and `ApplyView`."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from headrace.core.errors import InternalError
from headrace.engine.driver.connections import Stream
from headrace.engine.protocol import (
    FRAME_BYTES_MAX,
    FRAME_HEADER,
    Ack,
    ApplyView,
    Message,
    Rows,
    decode_message,
    encode_frame,
)


class ChannelClosedError(Exception):
    """The connection to the server is closed: nothing that this process does has an effect any more."""


class Outgoing(Protocol):
    """The way of a query to the server."""

    def send(self, message: Message) -> None:
        """Send a message to the server."""
        ...

    def ask(
        self, make: Callable[[int], Rows | ApplyView], payload: bytes, *, stopped: threading.Event
    ) -> Ack:
        """Send a message, and return the answer of the server."""
        ...


def sendable(message: Message, payload: bytes) -> bytes:
    """Return the frame of a message. Raises InternalError for one that is too large to be read."""
    if len(payload) > FRAME_BYTES_MAX:
        raise InternalError(
            f"a batch of {len(payload)} bytes exceeds the {FRAME_BYTES_MAX} bytes of one message"
        )
    return encode_frame(message, payload)


class Channel:
    """A connection to the server; `send` and `ask` may be called from any thread, `messages` from one."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._writing = threading.Lock()
        self._sequences = itertools.count(1)
        self._waiting: dict[int, _Answer] = {}
        self._closed = threading.Event()

    def send(self, message: Message, payload: bytes = b"") -> None:
        """Write one frame. Raises ChannelClosedError, and InternalError for a frame that is too large to be read."""
        frame = sendable(message, payload)
        try:
            with self._writing:
                self._stream.sendall(frame)
        except OSError:
            raise ChannelClosedError from None

    def ask(
        self, make: Callable[[int], Rows | ApplyView], payload: bytes, *, stopped: threading.Event
    ) -> Ack:
        """Send the message of `make` for a new sequence, and wait for its Ack. Return an Ack with `stop` if `stopped` is set first."""
        sequence = next(self._sequences)
        answer = self._waiting[sequence] = _Answer()
        # That of the connection, which may be followed by another one.
        closed = self._closed
        try:
            self.send(make(sequence), payload)
            while not answer.arrived.wait(0.05):
                if stopped.is_set():
                    return Ack(sequence=sequence, stop=True)
                if closed.is_set():
                    raise ChannelClosedError
            return answer.ack or Ack(sequence=sequence, stop=True)
        finally:
            del self._waiting[sequence]

    def messages(self) -> Iterator[Message]:
        """Yield the server's messages, without Acks, which go to their waiting callers; ends with the connection."""
        try:
            while header := self._read(FRAME_HEADER.size):
                body_length, payload_length = FRAME_HEADER.unpack(header)
                if body_length + payload_length > FRAME_BYTES_MAX:
                    return
                message = decode_message(self._read(body_length))
                self._read(payload_length)
                if isinstance(message, Ack):
                    self._answer(message)
                else:
                    yield message
        finally:
            self._closed.set()

    def close(self) -> None:
        """End the connection."""
        self._closed.set()
        self._stream.close()

    def _answer(self, ack: Ack) -> None:
        waiting = self._waiting.get(ack.sequence)
        if waiting is not None:
            waiting.ack = ack
            waiting.arrived.set()

    def _read(self, length: int) -> bytes:
        """Return exactly `length` bytes, or none at the end of the connection."""
        data = bytearray()
        while len(data) < length:
            try:
                part = self._stream.recv(min(length - len(data), 1 << 20))
            except OSError:
                return b""
            if not part:
                return b""
            data += part
        return bytes(data)


class _Answer:
    def __init__(self) -> None:
        self.arrived = threading.Event()
        self.ack: Ack | None = None
