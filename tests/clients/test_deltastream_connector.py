"""The public Python client, unmodified, against a real server: ADR 0011 lists what these tests prove.

Its calls over HTTP block the event loop, so each test does one thing after the other, as its users must.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from deltastream.api.conn import APIConnection
from deltastream.api.error import AuthenticationError, SQLError, SqlState

from harness.kafka import KafkaClient
from harness.patience import PATIENCE_S
from harness.process import HeadraceProcess
from harness.registry_front import RegistryFront
from harness.secured_kafka import Authority

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def connect(
    server: HeadraceProcess, *, token: str | None = None, database: str | None = None
) -> APIConnection:
    """The constructor, because the client's `from_dsn` loses the port (client-contract, fact 10)."""

    async def provide() -> str:
        return token or server.token

    return APIConnection(
        server_url=f"{server.url}/v2",
        token_provider=provide,
        session_id=None,
        timezone="UTC",
        organization_id=None,
        role_name=None,
        database_name=database,
        schema_name=None,
        store_name=None,
    )


@pytest.fixture
async def connection(headrace_server: HeadraceProcess, seed: str) -> APIConnection:
    """A session in a separate database."""
    session = connect(headrace_server)
    await session.exec(f"CREATE DATABASE d_{seed};")
    await session.exec(f"USE DATABASE d_{seed};")
    return session


async def rows_of(connection: APIConnection, statement: str) -> tuple[list[str], list[list[object]]]:
    result = await connection.query(statement)
    return [column.name for column in result.columns()], [row async for row in result]


async def test_it_connects_and_reads_the_version(headrace_server: HeadraceProcess) -> None:
    version = await connect(headrace_server).version()
    assert {"major", "minor", "patch"} <= set(version)


async def test_a_trailing_slash_of_the_base_does_no_harm(headrace_server: HeadraceProcess) -> None:
    session = connect(headrace_server)
    session.server_url += "/"
    assert await session.version()


async def test_a_bad_token_is_its_authentication_error(headrace_server: HeadraceProcess) -> None:
    with pytest.raises(AuthenticationError):
        await connect(headrace_server, token="wrong").query("LIST DATABASES;")


async def test_it_creates_lists_and_uses(connection: APIConnection, seed: str) -> None:
    names, rows = await rows_of(connection, "LIST DATABASES;")
    assert names[:4] == ["Name", "IsDefault", "Owner", "CreatedAt"]
    [mine] = [row for row in rows if row[0] == f"d_{seed}"]
    # It decodes by type: a boolean and a time, not texts.
    assert mine[1] is True
    assert hasattr(mine[3], "year")
    assert connection.rsctx.database_name == f"d_{seed}"
    assert connection.rsctx.schema_name == "public"
    assert connection.rsctx.organization_id is not None


@pytest.mark.parametrize(
    ("statement", "state"),
    [
        ("SELEC 1;", SqlState.SQL_STATE_SYNTAX_ERROR),
        ("SELECT * FROM nothing_like_it;", SqlState.SQL_STATE_INVALID_RELATION),
        ("DESCRIBE STORE nothing_like_it;", SqlState.SQL_STATE_INVALID_STORE),
        ("TERMINATE QUERY 00000000-0000-4000-8000-000000000000;", SqlState.SQL_STATE_INVALID_QUERY),
    ],
)
async def test_errors_have_their_sqlstate(connection: APIConnection, statement: str, state: SqlState) -> None:
    with pytest.raises(SQLError) as raised:
        await connection.query(statement)
    assert raised.value.code is state
    assert str(raised.value)


async def test_files_that_it_attaches_are_read(connection: APIConnection, seed: str, tmp_path: Path) -> None:
    authority, certificate = Authority(), tmp_path / "certificate.pem"
    certificate.write_bytes(authority.key_and_certificate("localhost"))
    (tmp_path / "ca.pem").write_text(authority.pem)
    with RegistryFront(certificate=certificate, answer=lambda _path: (200, {}, b"[]")) as front:
        url = front.url("localhost")
        made = f"CREATE SCHEMA_REGISTRY r_{seed} WITH ('type' = CONFLUENT, 'uris' = '{url}', 'tls.ca_cert_file' = '{{}}');"
        with pytest.raises(SQLError):
            await connection.exec(made.format("@ca.pem"))
        await connection.exec_with_files(made.format("@/its/ca.pem"), [str(tmp_path / "ca.pem")])
        await connection.exec_with_files(
            f"UPDATE SCHEMA_REGISTRY r_{seed} WITH ('tls.ca_cert_file' = 'ca.pem');",
            [str(tmp_path / "ca.pem")],
        )
    _, facts = await rows_of(connection, f"DESCRIBE SCHEMA_REGISTRY r_{seed};")
    assert dict(facts)["tls.ca_cert_file"].strip() == authority.pem.strip()
    await connection.exec(f"DROP SCHEMA_REGISTRY r_{seed};")


async def test_it_launches_a_query_and_reads_its_result_as_a_stream(
    connection: APIConnection, kafka: KafkaClient, seed: str
) -> None:
    kafka.create(f"visits_{seed}")
    kafka.produce(f"visits_{seed}", [(None, json.dumps({"page": page})) for page in ("a", "b", "c")])
    await connection.exec(
        f"CREATE STORE k_{seed} WITH ('type' = KAFKA, 'uris' = '{kafka.bootstrap}', "
        "'kafka.sasl.hash_function' = NONE, 'tls.disabled' = TRUE);"
    )
    await connection.exec(f"USE STORE k_{seed};")
    await connection.exec(
        f"CREATE STREAM visits (page VARCHAR) WITH ('topic' = 'visits_{seed}', 'value.format' = 'JSON');"
    )
    _, ddl = await rows_of(
        connection,
        f"CREATE STREAM busy WITH ('topic' = 'busy_{seed}', 'value.format' = 'JSON') AS "
        "SELECT page FROM visits WITH ('starting.position' = 'earliest') WHERE page <> 'b';",
    )
    assert ddl[0][:2] == ["stream", "busy"]
    # A changelog: its frames have headers, which this client must take.
    stream = await connection.query("SELECT DISTINCT page FROM busy WITH ('starting.position' = 'earliest');")
    try:
        assert [column.name for column in stream.columns()] == ["page"]
        rows = aiter(stream)
        seen = [await asyncio.wait_for(anext(rows), PATIENCE_S) for _ in range(2)]
    finally:
        await stream.close()
    assert sorted(seen) == [["a"], ["c"]]
    names, queries = await rows_of(connection, "LIST QUERIES;")
    assert names[0] == "ID"
    [query] = [row[0] for row in queries if f"busy_{seed}" in str(row)]
    await connection.exec(f"TERMINATE QUERY {query};")
