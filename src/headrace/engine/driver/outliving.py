"""The connection of a driver that outlives its server: between two servers, queries run on without one (docs/adr/0096)."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack, suppress
from pathlib import Path

from headrace.engine.driver.channel import Channel, ChannelClosedError, sendable
from headrace.engine.driver.connections import Stream
from headrace.engine.driver.options import Outlive
from headrace.engine.driver_folder import LEASE_MARGIN_S, RENEWAL_S, DriverFolder
from headrace.engine.protocol import (
    FRAME_HEADER,
    Ack,
    ApplyView,
    Message,
    QueryEnded,
    QueryProgress,
    QueryStarted,
    Refused,
    Resumed,
    Rows,
    TakeOver,
    decode_message,
    encode_frame,
)

logger = logging.getLogger(__name__)

_RETRY_S = 0.25
_HANDSHAKE_TIMEOUT_S = 10.0
_GREETING_BYTES_MAX = 1024


class OutlivingChannel(Channel):
    """A connection to one server after the other: `stream`, and then one of `connect`, which raises OSError while there is no server.

    Without a server, `send` keeps the start, the end and the last progress of each query for the next one, and drops all else; `ask` waits
    for the next server with an epoch of a view, and raises ChannelClosedError for rows of a reader, who ends with the server.
    """

    def __init__(self, stream: Stream, connect: Callable[[], Stream], options: Outlive) -> None:
        super().__init__(stream)
        self._connect = connect
        self._options = options
        self._epoch = options.epoch
        self._is_attached = True
        self._attached = threading.Event()
        self._attached.set()
        self._over = threading.Event()
        self._kept: dict[tuple[type[Message], str], QueryStarted | QueryProgress | QueryEnded] = {}
        if options.folder is not None:
            folder = DriverFolder(options.folder)
            threading.Thread(target=self._renew, args=(folder,), name="lease", daemon=True).start()

    def send(self, message: Message, payload: bytes = b"") -> None:
        """Write one frame, or keep the message as described above. Raises ChannelClosedError once the driver is to end."""
        frame = sendable(message, payload)
        with self._writing:
            if self._is_attached:
                try:
                    self._stream.sendall(frame)
                except OSError:
                    self._is_attached = False
                else:
                    return
            if self._over.is_set():
                raise ChannelClosedError
            if isinstance(message, QueryStarted | QueryProgress | QueryEnded):
                self._kept[type(message), message.query_id] = message

    def ask(
        self, make: Callable[[int], Rows | ApplyView], payload: bytes, *, stopped: threading.Event
    ) -> Ack:
        """Send the message of `make`, again to each next server, and wait for its Ack."""
        while True:
            try:
                return super().ask(make, payload, stopped=stopped)
            except ChannelClosedError:
                if isinstance(make(0), Rows):
                    raise
            while not self._attached.wait(0.05):
                if stopped.is_set():
                    return Ack(sequence=0, stop=True)
                if self._over.is_set():
                    raise ChannelClosedError

    def rejoin(self, describe: Callable[[Collection[QueryEnded]], Resumed]) -> bool:
        """Wait for the next server, and follow it; `describe` returns the first message, about the queries that run, and those whose ends
        nobody has received. Return False if none has come in time: then the driver is to end."""
        self._attached.clear()
        with self._writing:
            self._is_attached = False
            self._stream.close()
        logger.warning("the server has ended: the queries run on, for at most %.0f s", self._options.orphan_s)
        deadline = time.monotonic() + self._options.orphan_s
        while time.monotonic() < deadline:
            with suppress(OSError, EOFError, ValueError), ExitStack() as undoing:
                stream = self._connect()
                undoing.callback(stream.close)
                if self._follows(stream):
                    self._attach(stream, describe)
                    undoing.pop_all()
                    logger.warning("taken over by a server with epoch %d", self._epoch)
                    return True
            time.sleep(_RETRY_S)
        self._over.set()
        logger.warning("no server has taken the driver over: its queries stop")
        return False

    def _follows(self, stream: Stream) -> bool:
        """True if the server at the other end is a later one than the last. Raises OSError, EOFError and ValueError."""
        stream.settimeout(_HANDSHAKE_TIMEOUT_S)
        length, payload_length = FRAME_HEADER.unpack(_exactly(stream, FRAME_HEADER.size))
        if length > _GREETING_BYTES_MAX or payload_length:
            raise ValueError("the first frame of a server is too long")
        message = decode_message(_exactly(stream, length))
        if not isinstance(message, TakeOver):
            raise ValueError("the first frame of a server is not TakeOver")
        stream.settimeout(None)
        if message.epoch <= self._epoch:
            logger.warning("refused a server with epoch %d after one with %d", message.epoch, self._epoch)
            stream.sendall(encode_frame(Refused(epoch=self._epoch)))
            return False
        self._epoch = message.epoch
        return True

    def _attach(self, stream: Stream, describe: Callable[[Collection[QueryEnded]], Resumed]) -> None:
        # A query may end while it is described; its end then follows.
        with self._writing:
            ended = [message for message in self._kept.values() if isinstance(message, QueryEnded)]
        first = describe(ended)
        with self._writing:
            stream.sendall(encode_frame(first))
            for message in self._kept.values():
                stream.sendall(encode_frame(message))
            self._kept.clear()
            self._stream, self._closed = stream, threading.Event()
            self._is_attached = True
        self._attached.set()

    def _renew(self, folder: DriverFolder) -> None:
        """Renew the lease for the guard while the driver has a server."""
        while not self._over.is_set():
            if self._attached.is_set():
                with suppress(OSError):
                    folder.renew(self._options.orphan_s + LEASE_MARGIN_S)
            time.sleep(RENEWAL_S)


def hold_lock(folder: Path) -> int:
    """Hold the lock of the driver's folder, and return its descriptor. Ends the process if the folder was removed: nobody will find it."""
    try:
        return DriverFolder(folder).hold()
    except OSError as error:
        logger.error("cannot hold the lock in %s: %s", folder, error)
        sys.stderr.flush()
        os._exit(1)


def _exactly(stream: Stream, length: int) -> bytes:
    data = b""
    while len(data) < length:
        part = stream.recv(length - len(data))
        if not part:
            raise EOFError("the server has closed the connection")
        data += part
    return data
