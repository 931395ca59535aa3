"""dbt with its public adapter, unmodified: a project from nothing, twice, with its seeds, tests and documentation.

dbt has a separate environment, since it requires other versions of our tools. Its commands run in one process, so that it starts once.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet

from harness.apicurio import Registry
from harness.jar import jar_of
from harness.kafka import KafkaClient
from harness.patience import until
from harness.process import HeadraceProcess
from harness.virtual_environment import VirtualEnvironment
from headrace.client import Client
from headrace.core.context import SessionContext

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

HERE = Path(__file__).parent / "dbt"
MODELS = {
    "broker",
    "schemas",
    "order_messages",
    "udfs",
    "order_topic",
    "orders",
    "big_orders",
    "totals",
    "best_sellers",
}


@dataclass
class Dbt:
    """dbt in a project."""

    process: subprocess.Popen[str]

    def __call__(self, *arguments: str) -> dict[str, str]:
        """Run a command, which must succeed; return the result of each node."""
        assert self.process.stdin
        assert self.process.stdout
        print(json.dumps(arguments), file=self.process.stdin, flush=True)
        answer = json.loads(self.process.stdout.readline())
        assert answer["success"], answer
        results: dict[str, str] = answer["results"]
        return results


@contextmanager
def dbt(
    project: Path, server: HeadraceProcess, kafka: KafkaClient, seed: str, registry: str = ""
) -> Iterator[Dbt]:
    """Run dbt in a copy of our project, with objects named after the seed in a new database; dbt's report of a failure is part of the
    test's output."""
    environment = VirtualEnvironment("dbt", HERE / "requirements.lock")
    environment.make()
    shutil.copytree(HERE / "project", project)
    rows(server, f"CREATE DATABASE d_{seed}")
    [[organization, *_]] = rows(server, "LIST ORGANIZATIONS")
    variables = {
        **os.environ,
        "DBT_PROJECT_DIR": str(project),
        "DBT_PROFILES_DIR": str(project),
        "DBT_ENV_SECRET_TOKEN": server.token,
        "HEADRACE_TEST_URL": f"{server.url}/v2",
        "HEADRACE_TEST_ORGANIZATION": str(organization),
        "HEADRACE_TEST_DATABASE": f"d_{seed}",
        "HEADRACE_TEST_KAFKA": kafka.bootstrap,
        "HEADRACE_TEST_STORE": f"broker_{seed}",
        "HEADRACE_TEST_REGISTRY": registry,
        "HEADRACE_TEST_REGISTRY_NAME": f"schemas_{seed}",
        "HEADRACE_TEST_MESSAGES": f"messages_{seed}",
        "HEADRACE_TEST_UDFS": f"udfs_{seed}",
        "HEADRACE_TEST_TOPIC": f"orders_{seed}",
    }
    command = [str(environment.python), str(HERE / "commands.py")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables, cwd=project
    ) as process:
        yield Dbt(process)


@pytest.mark.prove
@pytest.mark.usefixtures("trusted")
def test_what_a_model_needs_is_built_over_https(
    https_server: HeadraceProcess, kafka: KafkaClient, seed: str, tmp_path: Path
) -> None:
    with dbt(tmp_path / "project", https_server, kafka, seed) as run:
        run("debug")
        assert run("run", "--select", "+orders") == dict.fromkeys(
            ("broker", "order_topic", "orders"), "success"
        )
    [[kind]] = rows(https_server, "SELECT type FROM deltastream.sys.relations WHERE name = 'orders'")
    assert kind == "stream"


def test_a_project_is_built_tested_documented_and_built_again(
    headrace_server: HeadraceProcess, kafka: KafkaClient, registry: Registry, seed: str, tmp_path: Path
) -> None:
    project, database = tmp_path / "project", f"d_{seed}"

    def sold() -> list[list[str | None]]:
        return rows(
            headrace_server, f"SELECT item, orders FROM {database}.analytics.best_sellers ORDER BY item"
        )

    def terminate() -> None:
        mine = f"SELECT id FROM deltastream.sys.queries WHERE sink_fqn LIKE '\"{database}\"%'"
        for [query] in rows(headrace_server, mine):
            run("run-operation", "terminate_query", "--args", json.dumps({"query_id": query}))

    with dbt(project, headrace_server, kafka, seed, registry.url) as run:
        (project / "orders.desc").write_bytes(_descriptors())
        (project / "udfs.jar").write_bytes(jar_of("com/x/Again.class"))
        run("debug")
        assert run("run") == dict.fromkeys(MODELS, "success")
        run("seed")
        until(lambda: sold() == [["chair", "1"], ["it's a lamp", "1"]], sold)
        assert set(run("test").values()) == {"pass"}
        run("docs", "generate")
        terminate()
        assert run("run") == dict.fromkeys(MODELS, "success")
        assert rows(headrace_server, "LIST FUNCTIONS WHERE name LIKE 'udfs_%_again'")
        # The topic of big_orders has its rows twice now.
        until(lambda: sold() == [["chair", "2"], ["it's a lamp", "2"]], sold)
        terminate()
    catalog = json.loads((project / "target" / "catalog.json").read_text())["nodes"]
    documented = {name.rsplit(".", 1)[1]: node["metadata"]["type"] for name, node in catalog.items()}
    assert documented == {
        "orders": "stream",
        "big_orders": "stream",
        "totals": "changelog",
        "best_sellers": "materialized_view",
    }


def _descriptors() -> bytes:
    """Return protoc's output for a file with one message."""
    file = FileDescriptorProto(name="orders.proto", package="shop", syntax="proto3")
    file.message_type.add(name="Order").field.add(
        name="item",
        number=1,
        label=FieldDescriptorProto.LABEL_OPTIONAL,
        type=FieldDescriptorProto.TYPE_STRING,
    )
    return FileDescriptorSet(file=[file]).SerializeToString()


def rows(server: HeadraceProcess, text: str) -> list[list[str | None]]:
    """Return a statement's rows."""

    async def ask() -> list[list[str | None]]:
        async with Client(server.url, server.token, context=SessionContext("")) as client:
            return [list(row) for row in (await client.execute(text)).rows]

    return asyncio.run(ask())
