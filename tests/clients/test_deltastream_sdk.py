"""The public SDK for Python, unmodified, against a real server: its managers create, list, describe and drop objects."""

from __future__ import annotations

import pytest
from deltastream_sdk import DeltaStreamClient

from harness.kafka import KafkaClient
from harness.process import HeadraceProcess

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


async def test_its_managers_make_list_describe_and_drop(
    headrace_server: HeadraceProcess, kafka: KafkaClient, seed: str
) -> None:
    async def provide() -> str:
        return headrace_server.token

    database, store, topic = f"d_{seed}", f"s_{seed}", f"clicks_{seed}"
    # The constructor, because its DSN loses the port.
    async with DeltaStreamClient(server_url=f"{headrace_server.url}/v2", token_provider=provide) as client:
        assert await client.test_connection()
        made = await client.databases.create(name=database)
        assert made.name == database
        await client.use_database(database)
        assert [item.name for item in await client.databases.list() if item.is_default] == [database]
        await client.schemas.create(name="reports")
        assert [item.name for item in await client.schemas.list()] == ["public", "reports"]
        await client.use_schema("reports")

        properties = {"uris": kafka.bootstrap, "kafka.sasl.hash_function": "NONE", "tls.disabled": "TRUE"}
        await client.stores.create_kafka_store(store, properties)
        assert store in [item.name for item in await client.stores.list(type="KAFKA")]
        assert (await client.stores.test_connection(store))["Status"] == "ready"
        await client.use_store(store)

        await client.entities.create(name=topic, store=store, params={"kafka.partitions": 1})
        await client.entities.insert_values(topic, [{"page": "it's"}, {"page": "b"}], store=store)
        columns = [{"name": "page", "type": "VARCHAR"}]
        await client.streams.create_with_schema(
            "clicks", columns, store=store, topic=topic, value_format="JSON"
        )
        [stream] = await client.streams.list(database=database, schema="reports")
        assert (stream.name, stream.state) == ("clicks", "created")
        assert stream.created_at is not None
        assert await client.streams.exists("clicks")
        assert not await client.streams.exists("clocks")
        read = 'SELECT name, fqn FROM deltastream.sys."relations" WHERE database_name = '
        assert await client.query_sql(f"{read}'{database}'") == [
            {"name": "clicks", "fqn": f'"{database}"."reports"."clicks"'}
        ]
        assert [pool.name for pool in await client.compute_pools.list()] == ["default_pool"]
        assert await client.changelogs.list() == []
        for manager in (client.functions, client.function_sources):
            assert not [item for item in await manager.list() if seed in item.name]

        await client.streams.delete("clicks")
        await client.entities.delete(topic)
        await client.use_schema("public")
        await client.schemas.delete("reports")
        await client.stores.delete(store)
        await client.databases.delete(database)
        assert not await client.databases.exists(database)
