"""The server's half of the handshake with a driver, over a Unix socket or TLS: its token, and the epoch of a take-over (docs/adr/0096)."""

from __future__ import annotations

import asyncio
import hmac

from pydantic import ValidationError

from headrace.engine.launch import Streams, read_frame
from headrace.engine.protocol import (
    FRAME_HEADER,
    Authenticate,
    Refused,
    Resumed,
    TakeOver,
    decode_message,
    encode_frame,
)

HANDSHAKE_TIMEOUT_S = 10.0
"""For the token and the answer to `TakeOver` together; over TLS, for its handshake before that too."""
AUTHENTICATION_BYTES_MAX = 1024


class Handshake:
    """Admission of the driver of a pool: of one connection, by the token that it shares with its servers. Used from one event loop.

    A driver that `returns` has run for an earlier server: it must follow this one, whose `epoch` is later. `failed` is why it does not.
    """

    def __init__(self, pool: str, token: str, *, epoch: int = 0, returns: bool = False) -> None:
        loop = asyncio.get_running_loop()
        self.pool = pool
        self.token = token
        self.connected: asyncio.Future[Streams] = loop.create_future()
        self.failed: asyncio.Future[str] = loop.create_future()
        self.resumed: Resumed | None = None
        self.is_refused = False
        """True if the driver follows a later server, which is not to lose it."""
        self._epoch = epoch
        self._returns = returns

    def knows(self, token: str) -> bool:
        """True if a token is that of the driver; the time does not depend on it."""
        return hmac.compare_digest(token.encode(), self.token.encode())

    async def admit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take a connection whose first frame had the driver's token. Raises ValueError if it is not to be used, and as `read_frame`."""
        if self._returns and not self.connected.done():
            await self._take_over(reader, writer)
        if self.connected.done():
            raise ValueError("the driver is connected already")
        self.connected.set_result((reader, writer))

    def fail(self, reason: str) -> None:
        """Set the reason why the driver does not follow this server, unless there is one."""
        if not self.failed.done():
            self.failed.set_result(reason)

    def fail_after(self, seconds: float) -> None:
        """Set a reason if the driver has not followed in time. It has no effect on one that has."""
        asyncio.get_running_loop().call_later(
            seconds,
            self.fail,
            f"the driver of the earlier server did not follow this one within {seconds:.0f} s",
        )

    def close(self) -> None:
        """Close the connection."""
        if self.connected.done() and not self.connected.cancelled():
            self.connected.result()[1].close()

    async def _take_over(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(encode_frame(TakeOver(epoch=self._epoch)))
        message, _ = await read_frame(reader)
        if isinstance(message, Refused):
            self.is_refused = True
            self.fail(
                f"its driver follows a later server: that one has the epoch {message.epoch}, this one has {self._epoch}"
            )
        if not isinstance(message, Resumed):
            raise ValueError("the driver does not follow this server")
        self.resumed = message


class HandshakeLaunch:
    """The members of `launch.Launch` that are the same for processes and pods whose driver may outlive its server."""

    _handshake: Handshake
    returns = False

    @property
    def ready(self) -> Resumed | None:
        """The first message of a driver that follows this server."""
        return self._handshake.resumed

    @property
    def connected(self) -> asyncio.Future[Streams]:
        """The connection, once there is one."""
        return self._handshake.connected


async def read_token(reader: asyncio.StreamReader) -> str:
    """Return the token of the first frame. Raises ValueError if it is another message or too long, EOFError at the end."""
    body_length, payload_length = FRAME_HEADER.unpack(await reader.readexactly(FRAME_HEADER.size))
    if body_length > AUTHENTICATION_BYTES_MAX or payload_length:
        raise ValueError("the first frame is too long")
    try:
        message = decode_message(await reader.readexactly(body_length))
    except ValidationError:
        # Its text contains the input.
        raise ValueError("the first frame is no message") from None
    if not isinstance(message, Authenticate):
        raise ValueError("the first frame has no token")
    return message.token
