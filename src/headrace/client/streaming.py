"""The data plane: the frames of a live result over a WebSocket."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, ConnectionClosedOK, WebSocketException

from headrace.client.errors import ConnectionFailedError
from headrace.client.trust import trusted
from headrace.client.wire import AGENT, StreamOffer


@asynccontextmanager
async def opened_frames(offer: StreamOffer, *, is_local: bool) -> AsyncGenerator[AsyncIterator[Any]]:
    """Open the stream that the server offered, and yield its frames; leaving the context closes it.

    Raises ConnectionFailedError when the stream cannot be opened, and from the iterator when the connection is lost.
    """
    socket = await _open(offer, is_local=is_local)
    try:
        yield _frames(socket)
    finally:
        await socket.close()


async def _frames(socket: ClientConnection) -> AsyncIterator[Any]:
    try:
        async for text in socket:
            yield json.loads(text)
    except ConnectionClosedOK:
        return
    except ConnectionClosed as error:
        raise ConnectionFailedError(f"the connection to the stream was lost: {error}") from error


async def _open(offer: StreamOffer, *, is_local: bool) -> ClientConnection:
    parts = urlsplit(offer.uri)
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    try:
        socket = await connect(
            urlunsplit(parts._replace(scheme=scheme)),
            user_agent_header=AGENT,
            compression=None,
            max_size=None,
            # The server pings; a reader that is busy must not lose its stream.
            ping_interval=None,
            proxy=None if is_local else True,
            ssl=trusted() if scheme == "wss" else None,
        )
        await socket.send(json.dumps({"type": "auth", "accessToken": offer.token, "sessionId": ""}))
    except (OSError, WebSocketException) as error:
        raise ConnectionFailedError(f"cannot open the stream at {offer.uri}: {error}") from error
    return socket
