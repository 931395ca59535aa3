"""The port for drivers on other machines: a driver with its token is admitted, and everybody else is refused."""

from __future__ import annotations

import asyncio
import secrets
import signal
import socket
import ssl
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from harness.patience import PATIENCE_S
from headrace.core.errors import ExternalError
from headrace.engine import driver_port
from headrace.engine.driver import __main__ as driver_main
from headrace.engine.driver.channel import Channel
from headrace.engine.driver.connections import Stream, connect_securely
from headrace.engine.driver_port import DriverPort, PortIdentity
from headrace.engine.handshake import AUTHENTICATION_BYTES_MAX, Handshake
from headrace.engine.launch import read_frame
from headrace.engine.protocol import (
    CERTIFICATE_FILE,
    FRAME_HEADER,
    TOKEN_FILE,
    Ack,
    Authenticate,
    Ready,
    Rows,
    StopQuery,
    encode_frame,
)

READY = Ready(pid=1, spark_version="4", start_ms=2)


@pytest.fixture
async def port() -> AsyncIterator[DriverPort]:
    opened = DriverPort("127.0.0.1", 0)
    opened.open(PortIdentity.create())
    yield opened
    await opened.close()


def expected(port: DriverPort) -> Handshake:
    """Return a driver that is to connect."""
    driver = Handshake("far", secrets.token_urlsafe(32))
    port.expect(driver)
    return driver


def credentials(folder: Path, driver: Handshake, port: DriverPort) -> Path:
    (folder / TOKEN_FILE).write_text(driver.token)
    (folder / CERTIFICATE_FILE).write_text(port.identity.certificate)
    return folder


async def connect(port: DriverPort, folder: Path) -> Stream:
    return await asyncio.to_thread(connect_securely, f"127.0.0.1:{port.port}", folder)


async def test_frames_cross_in_both_directions(port: DriverPort, tmp_path: Path) -> None:
    driver = expected(port)
    channel = Channel(await connect(port, credentials(tmp_path, driver, port)))
    reader, writer = await driver.connected
    received: list[object] = []
    reading = threading.Thread(target=lambda: received.extend(channel.messages()))
    reading.start()
    payload = bytes(range(256)) * 4096
    # Threads write at the same time, and one reads: what `ssl.SSLSocket` does not allow.
    writing = [threading.Thread(target=channel.send, args=(READY, payload)) for _ in range(4)]
    for thread in writing:
        thread.start()
    for _ in writing:
        writer.write(encode_frame(StopQuery(query_id="q")))
        assert await read_frame(reader) == (READY, payload)
    asking = asyncio.create_task(
        asyncio.to_thread(
            channel.ask,
            lambda sequence: Rows(sequence=sequence, query_id="q", batch_id=1),
            b"rows",
            stopped=threading.Event(),
        )
    )
    message, rows = await read_frame(reader)
    assert isinstance(message, Rows)
    assert rows == b"rows"
    writer.write(encode_frame(Ack(sequence=message.sequence)))
    assert await asking == Ack(sequence=message.sequence)
    writer.close()
    await asyncio.to_thread(reading.join)
    assert received == [StopQuery(query_id="q")] * 4
    channel.close()


async def is_refused(port: DriverPort, data: bytes, *, tls: bool = True) -> bool:
    """Send bytes as a stranger; return whether the server answers with nothing but the end."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection("127.0.0.1", port.port, ssl=context if tls else None)
    writer.write(data)
    try:
        return await reader.read() == b"" or not tls
    except ConnectionError:
        return True
    finally:
        writer.transport.abort()


@pytest.mark.parametrize(
    "data",
    [
        encode_frame(Authenticate(token="x" * 43)),
        encode_frame(READY),
        encode_frame(Authenticate(token="x"), b"payload"),
        FRAME_HEADER.pack(AUTHENTICATION_BYTES_MAX + 1, 0),
        FRAME_HEADER.pack(2**32 - 1, 2**32 - 1),
        FRAME_HEADER.pack(4, 0) + b"nope",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=["wrong token", "no token", "payload", "long", "longest", "no JSON", "HTTP"],
)
async def test_another_first_frame_is_refused(port: DriverPort, data: bytes) -> None:
    driver = expected(port)
    assert await is_refused(port, data)
    assert not driver.connected.done()


async def test_plain_text_is_refused_with_the_right_token_too(port: DriverPort) -> None:
    driver = expected(port)
    assert await is_refused(port, encode_frame(Authenticate(token=driver.token)), tls=False)
    assert not driver.connected.done()


async def test_a_token_is_valid_once_and_for_its_driver(port: DriverPort, tmp_path: Path) -> None:
    driver, other, forgotten = expected(port), expected(port), expected(port)
    stream = await connect(port, credentials(tmp_path, driver, port))
    _, writer = await driver.connected
    assert not other.connected.done()
    assert await is_refused(port, encode_frame(Authenticate(token=driver.token)))
    port.forget(forgotten)
    assert await is_refused(port, encode_frame(Authenticate(token=forgotten.token)))
    writer.close()
    stream.close()


async def test_who_sends_nothing_is_disconnected(port: DriverPort, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_port, "HANDSHAKE_TIMEOUT_S", 0.05)
    assert await is_refused(port, b"", tls=False)
    # Nothing, and slowly: a byte of the header.
    for data in (b"", b"\0"):
        # On a busy machine, the time is over before TLS is established.
        with suppress(ConnectionError, ssl.SSLError):
            assert await is_refused(port, data)


async def test_strangers_are_limited_and_drivers_are_not(
    port: DriverPort, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_port, "STRANGERS_MAX", 1)
    first, second = expected(port), expected(port)
    streams, writers = [], []
    for driver in (first, second):
        streams.append(await connect(port, credentials(tmp_path, driver, port)))
        writers.append((await driver.connected)[1])
    _, writer = await asyncio.open_connection("127.0.0.1", port.port)
    await asyncio.sleep(0)
    assert await is_refused(port, b"", tls=False)
    for each in (writer, *writers, *streams):
        each.close()


@pytest.mark.parametrize("turns", range(6))
async def test_a_port_that_closes_also_closes_a_connection_that_is_being_accepted(turns: int) -> None:
    opened = DriverPort("127.0.0.1", 0)
    opened.open(PortIdentity.create())
    with socket.create_connection(("127.0.0.1", opened.port), timeout=PATIENCE_S) as stranger:
        for _ in range(turns):
            await asyncio.sleep(0)
        await opened.close()
        # A socket that is dropped instead is a warning, and the run treats it as an error.
        with suppress(ConnectionResetError):
            assert await asyncio.to_thread(stranger.recv, 1) == b""


async def test_a_driver_trusts_no_other_certificate(port: DriverPort, tmp_path: Path) -> None:
    impostor = DriverPort("127.0.0.1", 0)
    impostor.open(PortIdentity.create())
    driver = expected(port)
    with pytest.raises(ssl.SSLCertVerificationError):
        await connect(impostor, credentials(tmp_path, driver, port))
    await impostor.close()


async def test_a_port_in_use_is_reported(port: DriverPort) -> None:
    with pytest.raises(ExternalError, match="cannot listen for drivers on 127"):
        DriverPort("127.0.0.1", port.port).open(PortIdentity.create())


async def test_a_driver_that_starts_ends_with_its_server(
    port: DriverPort, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signals: list[int] = []
    monkeypatch.setattr(driver_main.os, "kill", lambda _pid, number: signals.append(number))
    for serves in (True, False):
        driver, serving = expected(port), threading.Event()
        stream = await asyncio.to_thread(
            connect_securely, f"127.0.0.1:{port.port}", credentials(tmp_path, driver, port)
        )
        watching = asyncio.create_task(asyncio.to_thread(driver_main._end_with_server, stream, serving))
        _, writer = await driver.connected
        writer.write(encode_frame(StopQuery(query_id="q")))
        if serves:
            serving.set()
        await asyncio.sleep(0.05)
        assert not watching.done()
        writer.transport.abort()
        await watching
        stream.close()
        assert signals == ([] if serves else [signal.SIGTERM])


async def test_the_kernel_watches_the_connection(port: DriverPort, tmp_path: Path) -> None:
    driver = expected(port)
    stream = await connect(port, credentials(tmp_path, driver, port))
    _, writer = await driver.connected
    peer: socket.socket = writer.get_extra_info("socket")
    assert peer.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    writer.close()
    stream.close()
