"""Connections on a real socket: the bounds, and who keeps a place."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from harness.authority import Authority
from harness.patience import PATIENCE_S
from headrace.server import connections
from tests.unit.server.scripted import serving

GOOD = {"Authorization": "Bearer good-token"}
HALF_BODY = (
    b"POST /v2/statements HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer good-token\r\n"
    b"Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
)
Half = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def half_sent(
    address: str, count: int, start: bytes = b"GET /v2/version HT"
) -> AsyncIterator[list[Half]]:
    host, _, port = address.partition(":")
    opened: list[Half] = []
    try:
        for _ in range(count):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(start)
            opened.append((reader, writer))
        yield opened
    finally:
        for _, writer in opened:
            writer.close()


async def ended(half: Half) -> bool:
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await half[0].read() == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


@pytest.mark.parametrize(
    ("limit", "start"),
    [
        ("HEADER_TIMEOUT_S", b""),
        ("HEADER_TIMEOUT_S", b"GET /v2/version HT"),
        ("BODY_TIMEOUT_S", HALF_BODY),
    ],
)
async def test_a_request_that_does_not_arrive_is_given_up(
    address: str, monkeypatch: pytest.MonkeyPatch, limit: str, start: bytes
) -> None:
    monkeypatch.setattr(connections, limit, 0.2)
    async with half_sent(address, 1, start) as (half,):
        assert await ended(half)


async def test_a_second_half_request_on_a_good_connection_is_given_up_too(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = b"GET /v2/version HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer good-token\r\n\r\n"
    async with half_sent(address, 1, whole) as (half,):
        assert b"200 OK" in await half[0].readline()
        monkeypatch.setattr(connections, "HEADER_TIMEOUT_S", 0.3)
        half[1].write(b"GET /v2")
        async with asyncio.timeout(PATIENCE_S):
            assert b"HTTP" not in await half[0].read()


async def test_the_oldest_stranger_makes_room_and_who_is_signed_in_stays(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "STRANGERS_MAX", 20)
    async with httpx.AsyncClient(base_url=f"http://{address}", headers=GOOD, timeout=PATIENCE_S) as client:
        assert (await client.get("/v2/version")).status_code == 200
        (socket,) = client._transport._pool.connections  # type: ignore[attr-defined]
        async with half_sent(address, 60) as halves:
            assert await ended(halves[0])
            assert (await client.get("/v2/version")).status_code == 200
            assert client._transport._pool.connections == [socket]  # type: ignore[attr-defined]
            async with httpx.AsyncClient(
                base_url=f"http://{address}", headers=GOOD, timeout=PATIENCE_S
            ) as other:
                assert (await other.get("/v2/version")).status_code == 200
    async with httpx.AsyncClient(base_url=f"http://{address}", headers=GOOD, timeout=PATIENCE_S) as client:
        assert (await client.get("/v2/version")).status_code == 200


async def test_an_address_and_a_user_have_so_many(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "PER_OWNER_MAX", 5)
    async with half_sent(address, 6) as halves:
        assert await ended(halves[0])
        halves[1][1].write(b"TP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert b"403" in await halves[1][0].readline()


HELLO = b"\x16\x03\x01\x02\x00\x01"
"""The begin of a TLS handshake."""


@pytest.mark.parametrize("start", [b"", HELLO])
async def test_a_tls_handshake_is_bounded_and_counted_as_a_stranger(
    app: FastAPI, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: bytes
) -> None:
    monkeypatch.setattr(connections, "STRANGERS_MAX", 5)
    authority = Authority()
    pem = tmp_path / "server.pem"
    pem.write_bytes(authority.key_and_certificate("localhost"))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pem)
    trust = ssl.create_default_context(cadata=authority.pem)
    async with (
        serving(app, port, tls),
        httpx.AsyncClient(
            base_url=f"https://localhost:{port}", headers=GOOD, verify=trust, timeout=PATIENCE_S
        ) as client,
    ):
        address = f"127.0.0.1:{port}"
        async with half_sent(address, 6, start) as halves:
            assert await ended(halves[0])
            assert (await client.get("/v2/version")).status_code == 200
            assert not halves[5][0].at_eof()
        monkeypatch.setattr(connections, "HEADER_TIMEOUT_S", 0.2)
        async with half_sent(address, 1, start) as (half,):
            assert await ended(half)
