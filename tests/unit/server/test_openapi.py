"""The OpenAPI document and the routes: both list the same routes, and responses match the document."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator

import pytest
import schemathesis
from fastapi import FastAPI
from fastapi.routing import APIRoute
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import positive_data_acceptance

from harness.patience import PATIENCE_S
from headrace.catalog.catalog import Catalog
from headrace.core.settings import Settings
from headrace.engine.engine import Engine
from headrace.server.app import create_app
from headrace.server.openapi import document
from headrace.server.ports import ServerParts
from headrace.session import StatementService
from headrace.statements.base import Services
from tests.unit.server.scripted import serving
from tests.unit.server.test_guard import walk

REQUESTS = int(os.environ.get("HEADRACE_FUZZ_REQUESTS", "3"))
"""For each operation."""
TOKEN = "an administrator's token"
STATEMENTS = [
    "LIST DATABASES;",
    'SELECT name FROM deltastream.sys."databases"',
    "CREATE DATABASE d; USE DATABASE d",
    "SELEC",
    "",
]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    """The real application, over a catalog and an engine that was not started."""
    folder = tmp_path_factory.mktemp("openapi")
    catalog = Catalog.open(folder)
    catalog.ensure_administrator(TOKEN)
    # Nobody answers there: whoever signs in with the provider is sent back to the page.
    provider = {"oidc_issuer": "http://127.0.0.1:1", "oidc_client_id": "c", "oidc_client_secret": "s"}
    given = Settings(data_dir=folder, **provider)
    statements = StatementService(Services(catalog, Engine(catalog, given), given))
    yield create_app(
        ServerParts(
            given,
            statements,
            catalog.authenticate,
            ended=catalog.ended,
            accounts=catalog,
            worksheets=catalog.worksheets,
        )
    )
    catalog.close()


@pytest.fixture(scope="module")
def address(app: FastAPI) -> Iterator[str]:
    """Yield the address of the application, in an event loop of its own."""
    loop, is_up = asyncio.new_event_loop(), threading.Event()
    addresses: list[str] = []
    stop = asyncio.Event()

    async def serve() -> None:
        async with serving(app, 0) as server:
            addresses.append(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}")
            is_up.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    is_up.wait()
    yield addresses[0]
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    loop.close()


def test_every_route_is_in_the_document_and_nothing_else(app: FastAPI) -> None:
    routes = {
        (route.path_format, method.lower())
        for route in walk(app)
        if isinstance(route, APIRoute)
        for method in route.methods
    }
    documented = {
        (path, method) for path, operations in document(app)["paths"].items() for method in operations
    }
    assert documented == routes


def test_single_sign_on_is_in_it_and_needs_no_token(app: FastAPI) -> None:
    paths = document(app)["paths"]
    for path in ("/v2/session/openid", "/v2/session/openid/callback"):
        operation = paths[path]["get"]
        assert (operation["security"], sorted(operation["responses"])) == ([], ["303", "400", "403"])


def test_each_answer_is_as_the_document_says(app: FastAPI, address: str) -> None:
    schema = schemathesis.openapi.from_dict(document(app))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    for result in schema.get_all_operations():
        operation = result.ok()

        @settings(
            max_examples=REQUESTS,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(), statement=st.sampled_from(STATEMENTS))
        def asked(case: schemathesis.Case, statement: str) -> None:
            if isinstance(case.body, dict) and "statement" in case.body:
                case.body["statement"] = statement
            # A schema cannot say that attachments have names that differ, or how many partitions a result has.
            case.call_and_validate(
                base_url=address,
                headers=headers,
                excluded_checks=[positive_data_acceptance],
                timeout=PATIENCE_S,
            )

        asked()
