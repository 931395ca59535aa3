"""Answers in docs/reference/statements.md that need a broker; the others are in tests/unit/docs."""

from __future__ import annotations

import pytest

from harness.apicurio import Registry, register
from harness.kafka import KafkaClient
from harness.process import HeadraceProcess
from harness.reference_page import assert_documented
from headrace.client import Client
from headrace.core.context import SessionContext

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

WITH_A_BROKER = {
    "CreateStore": "CREATE STORE k_{seed} WITH ('type' = KAFKA, 'uris' = '{bootstrap}', 'tls.disabled' = TRUE)",
    "CreateSchemaRegistry": "CREATE SCHEMA_REGISTRY r_{seed} WITH ('type' = CONFLUENT, 'uris' = '{registry}')",
    "UpdateSchemaRegistry": "UPDATE SCHEMA_REGISTRY r_{seed} WITH ('description' = 'ours')",
    "UpdateStore": "UPDATE STORE k_{seed} WITH ('schema_registry.name' = r_{seed})",
    "GenerateDdl": "GENERATE STREAM DDL s WITH ('topic' = 'a_{seed}', 'value.format' = AVRO)",
    "GenerateColumns": "GENERATE COLUMNS WITH ('topic' = 'a_{seed}', 'value.format' = AVRO)",
    "CreateEntity": "CREATE ENTITY e_{seed} WITH ('topic.partitions' = 1)",
    "UpdateEntity": "UPDATE ENTITY e_{seed} WITH ('topic.partitions' = 1)",
    "DescribeEntity": "DESCRIBE ENTITY e_{seed}",
    "ListPartitions": "LIST PARTITIONS IN e_{seed}",
    "InsertIntoEntity": "INSERT INTO ENTITY e_{seed} VALUE('{{}}')",
    "PrintEntity": "PRINT ENTITY e_{seed}",
    "CreateRelation": "CREATE STREAM s (n BIGINT) WITH ('topic' = 'e_{seed}', 'value.format' = JSON)",
    "InsertValues": "INSERT INTO s VALUES (1)",
    "CreateRelationAs": "CREATE STREAM t WITH ('topic' = 't_{seed}') AS SELECT n FROM s",
    "DropEntity": "DROP ENTITY f_{seed}",
}


async def test_the_page_names_every_column_of_every_answer(
    headrace_server: HeadraceProcess, kafka: KafkaClient, registry: Registry, seed: str
) -> None:
    kafka.create(f"f_{seed}")
    fields = '[{"name": "n", "type": "long"}]'
    register(registry.url, f"a_{seed}-value", f'{{"type": "record", "name": "a", "fields": {fields}}}')
    async with Client(headrace_server.url, headrace_server.token, context=SessionContext("")) as client:
        await client.execute(f"CREATE DATABASE d_{seed}; USE DATABASE d_{seed};")
        for kind, text in WITH_A_BROKER.items():
            text = text.format(seed=seed, bootstrap=kafka.bootstrap, registry=registry.url)
            answer = await client.execute(text)
            assert_documented(kind, [column.name for column in answer.columns])
        [query] = (await client.execute(f"LIST QUERIES WHERE query LIKE '%t_{seed}%'")).rows
        await client.execute(f"TERMINATE QUERY {query[0]}")
