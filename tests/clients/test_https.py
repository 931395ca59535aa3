"""A server with a certificate of an authority of one's own: the public Python clients and ours, over https and wss."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path

import pytest
from deltastream.api.conn import APIConnection
from deltastream_sdk import DeltaStreamClient

from harness.kafka import KafkaClient
from harness.patience import PATIENCE_S
from harness.process import HeadraceProcess
from headrace.client import Client, ServerUnreachableError

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

TABLES = "SELECT name FROM deltastream.sys.\"databases\" WHERE name = 'd'"


async def test_clients_refuse_a_server_with_an_untrusted_certificate(https_server: HeadraceProcess) -> None:
    async with Client(https_server.url, https_server.token) as client:
        with pytest.raises(ServerUnreachableError):
            await client.version()


@pytest.mark.usefixtures("trusted")
async def test_the_connector_runs_statements(https_server: HeadraceProcess) -> None:
    async def provide() -> str:
        return https_server.token

    names = ("session_id", "organization_id", "role_name", "database_name", "schema_name", "store_name")
    connection = APIConnection(
        server_url=f"{https_server.url}/v2", token_provider=provide, timezone="UTC", **dict.fromkeys(names)
    )
    await connection.exec("CREATE DATABASE d;")
    assert [row async for row in await connection.query(TABLES)] == [["d"]]
    await connection.exec("DROP DATABASE d;")


@pytest.mark.usefixtures("trusted")
async def test_the_sdk_makes_and_lists(https_server: HeadraceProcess, seed: str) -> None:
    async def provide() -> str:
        return https_server.token

    database = f"sdk_{seed}"
    async with DeltaStreamClient(server_url=f"{https_server.url}/v2", token_provider=provide) as client:
        await client.databases.create(name=database)
        assert database in [item.name for item in await client.databases.list()]
        await client.databases.delete(database)
        assert database not in [item.name for item in await client.databases.list()]


@pytest.mark.usefixtures("trusted")
async def test_a_live_result_comes_over_wss(
    https_server: HeadraceProcess, kafka: KafkaClient, seed: str
) -> None:
    topic = f"https-{seed}"
    kafka.create(topic)
    kafka.produce(topic, [(None, "{}")])
    properties = f"'type' = KAFKA, 'uris' = '{kafka.bootstrap}', 'tls.disabled' = TRUE"
    async with Client(https_server.url, https_server.token) as client:
        await client.execute(f"CREATE STORE k WITH ({properties}, 'kafka.sasl.hash_function' = NONE)")
        answer = await client.execute(f"PRINT ENTITY \"{topic}\" WITH ('from_beginning')")
        async with asyncio.timeout(PATIENCE_S), aclosing(answer.stream()) as rows:
            assert "{}" in (await anext(rows)).cells


def test_an_unusable_certificate_is_reported_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "none.pem").write_text("no certificate")
    for name in ("none.pem", "missing.pem"):
        command = (
            sys.executable,
            "-m",
            "headrace.cli",
            "up",
            "--data-dir",
            str(tmp_path / "data"),
            "--port",
            "0",
        )
        done = subprocess.run(
            [*command, "--tls-cert", str(tmp_path / name)],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 1
        assert f"cannot use the certificate {tmp_path / name}" in done.stderr
        assert "Traceback" not in done.stderr
