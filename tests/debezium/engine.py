"""Debezium's engine in a separate JVM, which collects changes in a queue."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from harness.postgresql import PASSWORD, USER, PostgresServer
from headrace.runtime.extension import pyspark_folder
from headrace.runtime.jars import jars
from headrace.runtime.java import java_command


class Engine:
    """Reads `tables` (with their schemas) by `slot`, and before that their rows where `with_rows`; a context manager."""

    def __init__(
        self, server: PostgresServer, folder: Path, slot: str, tables: list[str], *, with_rows: bool = True
    ) -> None:
        self._log = folder / f"debezium-{slot}.log"
        self._properties = {
            "name": slot,
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
            "database.hostname": "127.0.0.1",
            "database.port": str(server.port),
            "database.user": USER,
            "database.password": PASSWORD,
            "database.dbname": "postgres",
            "database.sslmode": "disable",
            "topic.prefix": slot,
            "plugin.name": "pgoutput",
            "slot.name": slot,
            "publication.name": slot,
            "publication.autocreate.mode": "filtered",
            "table.include.list": ",".join(tables),
            "snapshot.mode": "initial" if with_rows else "no_data",
            # Headrace's defaults, which Debezium needs settings for.
            "decimal.handling.mode": "string",
            "skipped.operations": "none",
            "tombstones.on.delete": "false",
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
        }

    def __enter__(self) -> Self:
        bridge = next((pyspark_folder() / "jars").glob("py4j-*.jar"))
        log = self._log.open("wb")
        port, token = launch_gateway(
            classpath=os.pathsep.join(map(str, [bridge, *jars("debezium")])),
            java_path=str(java_command()),
            javaopts=["-Xmx1g"],
            die_on_exit=True,
            enable_auth=True,
            redirect_stdout=log,
            redirect_stderr=log,
        )
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
        java: Any = self._gateway.jvm
        self._events = java.java.util.concurrent.LinkedBlockingQueue()
        self._failed = java.java.util.ArrayList()
        properties = java.java.util.Properties()
        for name, value in self._properties.items():
            properties.setProperty(name, value)
        named = java.java.lang.Class.forName
        builder = java.io.debezium.engine.DebeziumEngine.create(
            named("io.debezium.engine.format.Json")
        ).using(properties)
        # Calls into Python would be what is measured, so that JVM alone gathers what it is told: the change, and of an end its reason.
        adds = java.java.lang.invoke.MethodHandles
        before = self._gateway.new_array(java.java.lang.Class, 2)
        before[0], before[1] = java.java.lang.Boolean.TYPE, named("java.lang.String")
        reason = adds.dropArguments(self._add(java, self._failed), 0, before)
        proxies = java.java.lang.invoke.MethodHandleProxies
        consumer, callback = (
            named("java.util.function.Consumer"),
            named("io.debezium.engine.DebeziumEngine$CompletionCallback"),
        )
        builder = builder.using(proxies.asInterfaceInstance(callback, reason))
        self._engine = builder.notifying(
            proxies.asInterfaceInstance(consumer, self._add(java, self._events))
        ).build()
        self._thread = java.java.lang.Thread(self._engine)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread.isAlive():
            self._engine.close()
        self._gateway.shutdown()

    def count(self) -> int:
        """Return the number of changes so far."""
        assert self._thread.isAlive(), [str(error) for error in self._failed.toArray()]
        return int(self._events.size())

    def changes(self) -> list[dict[str, Any]]:
        """Return the changes so far in order; numbers with a fraction are decimals."""
        return [json.loads(event.value(), parse_float=Decimal) for event in self._events.toArray()]

    def _add(self, java: Any, queue: Any) -> Any:
        takes = java.java.lang.invoke.MethodType.methodType(
            java.java.lang.Boolean.TYPE, java.java.lang.Class.forName("java.lang.Object")
        )
        return (
            java.java.lang.invoke.MethodHandles.publicLookup()
            .findVirtual(queue.getClass(), "add", takes)
            .bindTo(queue)
        )
