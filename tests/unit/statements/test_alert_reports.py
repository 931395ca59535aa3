"""Alerts against a real receiver: what is sent, when, how often it is tried, and what is refused."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from harness.session import Session
from headrace.catalog.access import Grant, Privilege
from headrace.catalog.objects import Query
from headrace.connectors.egress import Egress
from headrace.core.errors import ExternalError, UserError
from headrace.core.sqlstate import SqlState
from headrace.engine.alerts import PENDING_MAX, TRIES, Alerts
from headrace.engine.findings import Finding

COPY = "INSERT INTO shop.public.orders SELECT n FROM lab.tests.orders QUERY WITH ('query.name' = copied)"
STOPPED = Finding("errored", "the query has stopped: no", "RESTART it")
SILENT = Finding("no_input", "nothing comes", "wait", warns=False)


class Receiver:
    """A server that keeps the requests it gets, and answers with the next of `statuses`, then with 200."""

    def __init__(self) -> None:
        receiver = self
        self.statuses: list[int] = []
        self.requests: list[tuple[str | None, dict[str, Any]]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append((self.headers["Authorization"], json.loads(body)))
                self.send_response(receiver.statuses.pop(0) if receiver.statuses else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook?key=hunter2"
        threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()

    @property
    def reports(self) -> list[tuple[str, str]]:
        return [(body["code"], body["status"]) for _, body in self.requests]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


class Rig:
    """Alerts over findings that a test sets."""

    def __init__(self, session: Session, egress: Egress | None = None, grace_s: float = 0) -> None:
        self.findings: list[Finding] = []
        file = session.engine.alerts._file
        self.alerts = Alerts(
            session.catalog, egress or Egress(), self._of, file, first_delay_s=0.001, grace_s=grace_s
        )
        self._catalog = session.catalog

    def _of(self, _query: Query) -> list[Finding]:
        return self.findings

    async def look(self, *findings: Finding) -> None:
        """Look at these findings, and wait until their reports are delivered or dropped."""
        self.findings = list(findings)
        await self.alerts.look()
        for alert in self._catalog.alerts.all():
            task = self.alerts.delivery(alert.id).task
            if task is not None:
                await task

    def delivery(self) -> Any:
        (alert,) = self._catalog.alerts.all()
        return self.alerts.delivery(alert.id)


async def test_a_finding_is_reported_when_it_appears_and_when_it_has_gone(
    session: Session, receiver: Receiver
) -> None:
    await session.run(COPY)
    await session.run(f"CREATE ALERT a ON QUERY copied WITH ('url' = '{receiver.url}', 'token' = 't0ken')")
    rig = Rig(session)
    for findings in ([], [STOPPED], [STOPPED, SILENT], [SILENT], []):
        await rig.look(*findings)
    assert receiver.reports == [("errored", "firing"), ("errored", "resolved")]
    authorization, body = receiver.requests[0]
    assert authorization == "Bearer t0ken"
    (query,) = session.catalog.unfinished_queries()
    assert body["query"] == {
        "id": query.id,
        "name": "copied",
        "version": 1,
        "writes": ["shop.public.orders"],
        "state": "starting",
    }
    assert (body["alert"], body["finding"], body["remedy"]) == ("a", STOPPED.sentence, STOPPED.remedy)
    assert rig.delivery().delivered_at is not None


async def test_codes_select_the_findings(session: Session, receiver: Receiver) -> None:
    await session.run(COPY)
    await session.run(f"CREATE ALERT a ON QUERY copied WHEN no_input WITH ('url' = '{receiver.url}')")
    await Rig(session).look(STOPPED, SILENT)
    assert receiver.reports == [("no_input", "firing")]


@pytest.mark.parametrize(
    ("statuses", "requests", "error"),
    [
        ([503, 429, 200], 3, None),
        ([500] * TRIES, TRIES, "HTTP 500"),
        ([404], 1, "HTTP 404"),
        ([302], 1, "HTTP 302"),
    ],
)
async def test_a_report_is_tried_again_where_that_may_help(
    session: Session, receiver: Receiver, statuses: list[int], requests: int, error: str | None
) -> None:
    await session.run(COPY)
    await session.run(f"CREATE ALERT a ON QUERY copied WITH ('url' = '{receiver.url}')")
    receiver.statuses = list(statuses)
    rig = Rig(session)
    await rig.look(STOPPED)
    assert len(receiver.requests) == requests
    assert (rig.delivery().error is None) == (error is None)
    assert (error or "") in (rig.delivery().error or "")


async def test_a_receiver_that_is_away_costs_a_bounded_queue(session: Session, receiver: Receiver) -> None:
    receiver.server.server_close()
    await session.run(COPY)
    await session.run(f"CREATE ALERT a ON QUERY copied WITH ('url' = '{receiver.url}')")
    rig = Rig(session)
    for _ in range(PENDING_MAX):
        for findings in ([STOPPED], []):
            rig.findings = findings
            await rig.alerts.look()
    assert len(rig.delivery().pending) == PENDING_MAX
    rig.delivery().task.cancel()


async def test_a_report_without_a_receiver_is_dropped_with_the_reason(
    session: Session, receiver: Receiver
) -> None:
    receiver.server.server_close()
    await session.run(COPY)
    await session.run(f"CREATE ALERT a ON QUERY copied WITH ('url' = '{receiver.url}')")
    rig = Rig(session)
    await rig.look(STOPPED)
    assert "does not accept" in rig.delivery().error
    assert not rig.delivery().pending


async def test_an_address_that_is_not_allowed_is_refused_at_each_request(
    session: Session, receiver: Receiver
) -> None:
    await session.run(COPY)
    await session.run(f"CREATE ALERT a ON QUERY copied WITH ('url' = '{receiver.url}')")
    rig = Rig(session, Egress(("public",)))
    await rig.look(STOPPED)
    assert not receiver.requests
    assert "does not connect to" in rig.delivery().error
    with pytest.raises(UserError, match=r"does not connect to '169\.254\.169\.254'"):
        await session.run("CREATE ALERT b ON QUERY copied WITH ('url' = 'http://169.254.169.254/latest')")


async def test_a_host_that_is_not_known_is_looked_up_again(
    session: Session, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await session.run(COPY)
    await session.run(f"CREATE ALERT a ON QUERY copied WITH ('url' = '{receiver.url}')")
    answers = iter([False, False, True])

    def addresses(host: str, _port: int) -> list[str]:
        if not next(answers):
            raise ExternalError(SqlState.REMOTE_UNAVAILABLE, f"the host {host} is not known")
        return [host]

    rig = Rig(session)
    monkeypatch.setattr(Egress, "addresses", lambda _self, host, port: addresses(host, port))
    await rig.look(STOPPED)
    assert receiver.reports == [("errored", "firing")]
    assert rig.delivery().error is None


async def test_a_restart_repeats_no_report_that_was_accepted(session: Session, receiver: Receiver) -> None:
    await session.run(COPY)
    await session.run(f"CREATE ALERT a ON QUERY copied WITH ('url' = '{receiver.url}')")
    await Rig(session).look(STOPPED)
    receiver.statuses = [404]
    await Rig(session).look()
    assert receiver.reports == [("errored", "firing"), ("errored", "resolved")]

    # The end was not accepted. In the first time after a start, a finding that is absent may only not be there yet.
    patient = Rig(session, grace_s=60)
    await patient.look()
    await patient.look(STOPPED)
    assert len(receiver.reports) == 2
    await Rig(session).look()
    await Rig(session).look()
    assert receiver.reports[2:] == [("errored", "resolved")]
    await Rig(session).look(STOPPED)
    assert receiver.reports[3:] == [("errored", "firing")]


async def test_a_damaged_file_of_accepted_reports_is_as_none(session: Session, receiver: Receiver) -> None:
    await session.run(COPY)
    await session.run(f"CREATE ALERT a ON QUERY copied WITH ('url' = '{receiver.url}')")
    session.engine.alerts._file.write_text('{"x": 1}')
    await Rig(session).look(STOPPED)
    assert receiver.reports == [("errored", "firing")]


async def test_who_may_not_describe_a_query_gets_no_reports(session: Session, receiver: Receiver) -> None:
    await session.run(COPY)
    session.catalog.create_role("pager", "sysadmin")
    await session.run(f"CREATE ALERT a ON QUERY copied WITH ('url' = '{receiver.url}')")
    (alert,) = session.catalog.alerts.all()
    session.catalog.change_owner(alert, "pager")
    rig = Rig(session)
    await rig.look(STOPPED)
    assert not receiver.requests
    (query,) = session.catalog.unfinished_queries()
    session.catalog.grant([Grant(query.id, Privilege.USAGE, "pager", "sysadmin")])
    await rig.look(STOPPED)
    assert receiver.reports == [("errored", "firing")]


async def test_an_alert_that_is_dropped_sends_nothing_more(session: Session, receiver: Receiver) -> None:
    await session.run(COPY)
    await session.run(f"CREATE ALERT a ON QUERY copied WITH ('url' = '{receiver.url}')")
    rig = Rig(session)
    await rig.look(STOPPED)
    await session.run("DROP ALERT a")
    await rig.look()
    assert receiver.reports == [("errored", "firing")]


async def test_the_task_looks_until_it_is_cancelled(session: Session, receiver: Receiver) -> None:
    await session.run(COPY)
    await session.run(f"CREATE ALERT a ON QUERY copied WITH ('url' = '{receiver.url}')")
    file = session.engine.alerts._file
    alerts = Alerts(session.catalog, Egress(), lambda _query: [STOPPED], file, interval_s=0.01)
    task = asyncio.create_task(alerts.run())
    while not receiver.requests:
        await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert receiver.reports == [("errored", "firing")]
