"""Traces and lineage events of a statement and its query, as a receiver over HTTP gets them."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from zlib import decompress

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from structlog.testing import capture_logs

from harness.patience import PATIENCE_S
from harness.session import Session, open_session
from headrace.core import tracing as spans
from headrace.core.errors import UserError
from headrace.core.settings import Settings
from headrace.engine import openlineage
from headrace.engine.engine import Engine
from headrace.server import tracing
from headrace.session import StatementService
from headrace.statements.base import Services
from tests.unit.engine.conftest import FAKE_DRIVER

INSERT = "INSERT INTO lab.tests.orders SELECT n + 41772 AS n FROM shop.public.orders WHERE n > 31337 QUERY WITH ('query.name' = copy)"


class Receiver:
    """A receiver of HTTP requests: the bodies by path."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.status = 200
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = decompress(body, 31)
                receiver.requests.append((self.path, dict(self.headers), body))
                self.send_response(receiver.status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Session]:
    """A session whose engine runs queries in the fake driver."""
    async with open_session(folder) as opened:
        settings = Settings(data_dir=folder, reconcile_interval_ms=50)
        command = (sys.executable, str(FAKE_DRIVER), "--journal", str(folder / "journal"))
        engine = Engine(opened.catalog, settings, driver_command=command)
        await engine.start()
        try:
            yield Session(
                opened.catalog, engine, StatementService(Services(opened.catalog, engine, settings))
            )
        finally:
            await engine.stop()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.02)


async def run_a_query(folder: Path) -> str:
    """Run a query until it has had two batches, end it, and return its id."""
    async with running(folder) as session:
        await session.run(INSERT)
        query = session.catalog.query_by_name("copy")
        assert query is not None
        await until(lambda: (progress := session.engine.progress(query.id)) and progress.batch_id == 1)
        await session.run(f"TERMINATE QUERY {query.id}")
        await until(lambda: session.catalog.query(query.id).actual_state.value == "terminated")  # type: ignore[union-attr]
        with pytest.raises(UserError):
            await session.run("DROP STORE nowhere_41772")
        return query.id


# --- traces


async def test_a_statement_its_plan_the_start_and_the_batches_are_traced(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=hunter2")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    stop = tracing.start()
    try:
        query_id = await run_a_query(tmp_path)
    finally:
        await asyncio.to_thread(stop)
    sent: list[Any] = []
    for path, headers, body in receiver.requests:
        assert (path, headers["authorization"]) == ("/v1/traces", "hunter2")
        request = ExportTraceServiceRequest.FromString(body)
        sent += [
            span for each in request.resource_spans for scope in each.scope_spans for span in scope.spans
        ]
        resource = {
            item.key: item.value.string_value for item in request.resource_spans[0].resource.attributes
        }
        assert resource["service.name"] == "headrace"
        assert resource["deployment.environment.name"] == "test"
    texts = b"".join(body for _, _, body in receiver.requests)
    assert not any(text in texts for text in (b"41772", b"31337", b"hunter2"))
    by_name = {name: [span for span in sent if span.name == name] for name in {span.name for span in sent}}
    assert by_name.keys() == {"statement", "plan", "query start", "query batch"}
    insert = next(
        span for span in by_name["statement"] if _attributes(span)["headrace.statement.kind"] == "InsertInto"
    )
    (plan,), (start,) = by_name["plan"], by_name["query start"]
    assert plan.parent_span_id == start.parent_span_id == insert.span_id
    assert plan.trace_id == start.trace_id == insert.trace_id
    assert _attributes(start)["headrace.query.id"] == query_id
    batches = by_name["query batch"]
    assert [_attributes(batch)["headrace.input_rows"] for batch in batches] == [10, 10]
    assert all(batch.links[0].span_id == start.span_id and not batch.parent_span_id for batch in batches)
    (failed,) = (span for span in by_name["statement"] if span.status.code == 2)
    assert _attributes(failed)["headrace.sqlstate"] == "3D006"
    assert not failed.events
    assert not failed.status.message


def _attributes(span: Any) -> dict[str, Any]:
    return {item.key: item.value.string_value or item.value.int_value for item in span.attributes}


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_no_traces_are_recorded_unless_they_are_requested(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    tracing.start()()
    with spans.span("statement", {}):
        spans.request_start("q")
    run = spans.RunSpans("q", {})
    run.started()
    run.batch(5, {})
    run.failed("XX000")


async def test_a_missing_extra_is_named_at_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(UserError) as caught:
        tracing.start()
    assert "pip install 'headrace[otel]'" in (caught.value.hint or "")
    async with open_session(tmp_path) as opened:
        monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:1")
        monkeypatch.setitem(sys.modules, "openlineage.client", None)
        with pytest.raises(UserError) as caught:
            openlineage.LineageEvents(opened.catalog)
        assert "pip install 'headrace[openlineage]'" in (caught.value.hint or "")


# --- lineage events


async def test_the_states_of_a_query_are_events_with_its_lineage_by_column(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from openlineage.client.facet_v2 import column_lineage_dataset

    monkeypatch.setenv("OPENLINEAGE_URL", receiver.url)
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "hunter2")
    query_id = await run_a_query(tmp_path)
    events = [json.loads(body) for _, _, body in receiver.requests]
    assert {(path, headers["Authorization"]) for path, headers, _ in receiver.requests} == {
        ("/api/v1/lineage", "Bearer hunter2")
    }
    assert [event["eventType"] for event in events] == ["START", "RUNNING", "ABORT"]
    assert {event["job"]["name"] for event in events} == {"copy"}
    assert {event["run"]["runId"] for event in events} == {str(uuid.uuid5(uuid.UUID(query_id), "1"))}
    (first, *_) = events
    assert [(each["namespace"], each["name"]) for each in first["inputs"]] == [
        ("kafka://127.0.0.1:9092", "shop_orders")
    ]
    (output,) = first["outputs"]
    assert (output["namespace"], output["name"]) == ("kafka://127.0.0.1:9092", "lab_orders")
    assert output["facets"]["schema"]["fields"][0]["name"] == "n"
    assert output["facets"]["symlinks"]["identifiers"][0]["name"] == "lab.tests.orders"
    lineage = output["facets"]["columnLineage"]
    (field,) = lineage["fields"]["n"]["inputFields"]
    assert (field["name"], field["field"]) == ("shop_orders", "n")
    assert field["transformations"][0] == {"type": "DIRECT", "subtype": "TRANSFORMATION"} | {
        name: value for name, value in field["transformations"][0].items() if name not in ("type", "subtype")
    }
    assert lineage["dataset"][0]["transformations"][0]["subtype"] == "FILTER"
    # The client's own classes accept what was sent.
    for each in lineage["fields"].values():
        for source in each["inputFields"]:
            transformations = [
                column_lineage_dataset.Transformation(**item) for item in source.pop("transformations")
            ]
            column_lineage_dataset.InputField(**source, transformations=transformations)
    assert all(text not in json.dumps(events) for text in ("41772", "31337", "hunter2"))


async def test_a_receiver_that_is_away_delays_no_query(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__RETRY", '{"total": 0}')
    monkeypatch.setattr(openlineage, "QUEUE_MAX", 1)
    with capture_logs() as logs:
        assert await run_a_query(tmp_path)
    assert "OPENLINEAGE__TRANSPORT__TRANSPORTS__DEFAULT_HTTP__URL" not in os.environ
    assert {entry["event"] for entry in logs} & {"lineage_event_not_sent", "lineage_event_dropped"}
