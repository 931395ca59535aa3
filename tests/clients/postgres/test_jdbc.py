"""PostgreSQL's own JDBC driver, in a JVM: metadata, parameters, fetch size and errors, as DBeaver and Metabase use it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from headrace.runtime.extension import pyspark_folder
from headrace.runtime.jars import jars
from headrace.runtime.java import java_command
from tests.clients.postgres.served import ROWS, TOKEN, VIEW, Served


@pytest.fixture(scope="module")
def java() -> Iterator[Any]:
    """A JVM with the driver on its class path."""
    bridge = next((pyspark_folder() / "jars").glob("py4j-*.jar"))
    port, secret = launch_gateway(
        classpath=os.pathsep.join(map(str, [bridge, *jars("jdbc")])),
        java_path=str(java_command()),
        javaopts=["-Xmx128m", "-XX:TieredStopAtLevel=1"],
        die_on_exit=True,
        enable_auth=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=secret))
    yield gateway.jvm
    gateway.shutdown()


@pytest.fixture
def connection(door: Served, java: Any) -> Iterator[Any]:
    properties = java.java.util.Properties()
    for name, value in {"user": "admin", "password": TOKEN, "sslmode": "disable"}.items():
        properties.setProperty(name, value)
    url = f"jdbc:postgresql://127.0.0.1:{door.port}/{door.database}"
    opened = java.org.postgresql.Driver().connect(url, properties)
    yield opened
    opened.close()


def rows(result: Any, *columns: str) -> list[tuple[Any, ...]]:
    read = []
    while result.next():
        read.append(tuple(result.getObject(column) for column in columns))
    result.close()
    return read


def test_metadata(connection: Any) -> None:
    metadata = connection.getMetaData()
    assert metadata.getDatabaseProductName() == "PostgreSQL"
    tables = rows(metadata.getTables(None, "public", "%", None), "TABLE_NAME", "TABLE_TYPE")
    assert sorted(tables) == [(VIEW, "MATERIALIZED VIEW"), ("orders", "FOREIGN TABLE")]
    columns = rows(metadata.getColumns(None, "public", VIEW, "%"), "COLUMN_NAME", "TYPE_NAME", "NULLABLE")
    assert [column[:2] for column in columns] == [("n", "int8")]
    assert ("public",) in rows(metadata.getSchemas(), "TABLE_SCHEM")


def test_parameters_and_parts(connection: Any) -> None:
    connection.setAutoCommit(False)
    statement = connection.prepareStatement(f'SELECT n FROM "{VIEW}" WHERE n >= ? ORDER BY n')
    statement.setFetchSize(1)
    # From the fifth execution on, the driver prepares the statement on the server, and reads binary values.
    for first in (1, 2, 3, 1, 2, 3, 1):
        statement.setLong(1, first)
        assert rows(statement.executeQuery(), "n") == [(n,) for n in range(first, ROWS + 1)]
    statement.close()
    connection.commit()


def test_an_error_has_its_state_and_place(connection: Any) -> None:
    statement = connection.createStatement()
    with pytest.raises(Py4JJavaError) as refused:
        statement.executeQuery(f'SELECT nothing FROM "{VIEW}"')
    error = refused.value.java_exception
    assert error.getSQLState() == "42703"
    assert error.getServerErrorMessage().getPosition() == 8
    assert rows(statement.executeQuery("SELECT 1 AS one"), "one") == [(1,)]
