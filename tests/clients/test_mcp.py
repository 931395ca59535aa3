"""`headrace mcp` at a real server: rows of a stream and of a view, and lineage, for a role that may change nothing."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from harness.kafka import KafkaClient
from harness.patience import PATIENCE_S
from harness.process import HeadraceProcess
from headrace.testing.door import RestDoor

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SET_UP = """
CREATE STORE k{seed} WITH ('type' = KAFKA, 'uris' = '{broker}', 'tls.disabled' = TRUE);
CREATE DATABASE d{seed};
USE DATABASE d{seed};
CREATE STREAM orders (id BIGINT, item VARCHAR) WITH ('store' = 'k{seed}', 'topic' = 'orders{seed}', 'value.format' = JSON);
CREATE MATERIALIZED VIEW sold AS SELECT item, COUNT(*) AS n FROM orders WITH ('starting.position' = 'earliest') GROUP BY item;
ALTER MATERIALIZED VIEW sold SET DESCRIPTION = 'Orders of each item.';
USE ROLE orgadmin;
CREATE ROLE agent{seed};
GRANT ROLE agent{seed} TO USER admin;
GRANT USAGE ON DATABASE d{seed} TO ROLE agent{seed};
GRANT USAGE ON SCHEMA d{seed}.public TO ROLE agent{seed};
GRANT SELECT ON MATERIALIZED VIEW d{seed}.public.sold TO ROLE agent{seed};
GRANT SELECT ON STREAM d{seed}.public.orders TO ROLE agent{seed};
"""


async def called(client: Client, tool: str, **arguments: Any) -> list[list[str]]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.structured_content
    rows: list[list[str]] = result.structured_content["rows"]
    return rows


async def sampled(client: Client, stream: str, rows: list[list[str]]) -> bool:
    """Return True if a sample has all rows, and False if the time was over before."""
    arguments = {"relation": stream, "max_rows": len(rows), "max_seconds": 30}
    result = await client.call_tool("sample_relation", arguments)
    if result.is_error:
        assert result.structured_content["error"]["sqlState"] == "57014", result.structured_content
        return False
    sample = result.structured_content["rows"]
    assert sample == rows[: len(sample)]
    return len(sample) == len(rows)


async def test_an_agent_reads_rows_and_changes_nothing(
    headrace_server: HeadraceProcess, kafka: KafkaClient, seed: str
) -> None:
    kafka.create(f"orders{seed}")
    records = [json.dumps({"id": n, "item": item}) for n, item in enumerate(("lamp", "chair", "lamp"))]
    kafka.produce(f"orders{seed}", [(None, record) for record in records])
    door = await asyncio.to_thread(RestDoor, headrace_server)
    try:
        for statement in filter(str.strip, SET_UP.format(seed=seed, broker=kafka.bootstrap).split(";")):
            await asyncio.to_thread(door.execute, f"{statement};")
        command = StdioServerParameters(
            command=sys.executable,
            args=["-m", "headrace.cli", "mcp", "--role", f"agent{seed}"],
            env={"HEADRACE_URL": headrace_server.url, "HEADRACE_TOKEN": headrace_server.token},
        )
        async with Client(command) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            view = f"view_d{seed}__public__sold"
            assert '"Orders of each item."' in (tools[view].description or "")
            assert "run_statement" not in tools
            stream = f"d{seed}.public.orders"
            orders = [["0", "lamp"], ["1", "chair"], ["2", "lamp"]]
            lamps = {"where": [{"column": "item", "value": "lamp"}]}
            async with asyncio.timeout(PATIENCE_S):
                # The tool does not wait for long, and a pool may still be starting.
                while not await sampled(client, stream, orders):
                    pass
                while await called(client, view, **lamps) != [["lamp", "2"]]:
                    await asyncio.sleep(0.2)
            # The role does not see the view's query.
            assert await called(client, "lineage", relation=stream) == [
                ["entity", f"k{seed}.orders{seed}", "relation", f'"d{seed}"."public"."orders"']
            ]
    finally:
        for statement in (
            "USE ROLE sysadmin",
            f"DROP DATABASE d{seed} CASCADE",
            f"DROP STORE k{seed}",
            "USE ROLE orgadmin",
            f"DROP ROLE agent{seed}",
        ):
            await asyncio.to_thread(door.execute, f"{statement};")
        await asyncio.to_thread(door.close)
