"""Alerts: findings of queries as requests to a webhook. ADR 57.

A finding is reported when it appears (`firing`) and when it ends (`resolved`), the words of Prometheus' Alertmanager. What was
reported is remembered until the server ends, so that a finding may be reported again after a restart, and none is forgotten.
"""

from __future__ import annotations

import asyncio
import datetime
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import structlog

from headrace import __version__
from headrace.catalog.access import Privilege
from headrace.catalog.catalog import Catalog
from headrace.catalog.objects import Alert, AlertFacts, Query
from headrace.connectors.egress import Egress
from headrace.core.errors import HeadraceError
from headrace.engine.findings import Finding

log = structlog.get_logger()

INTERVAL_S = 2.0
"""Between two looks at the findings."""
TIMEOUT_S = 10.0
TRIES = 8
"""With delays that double from a second on, about two minutes: longer than the restart of a receiver takes."""
PENDING_MAX = 100
"""Reports of an alert that wait for its receiver. Beyond them the oldest are dropped, which the log reports."""
_BY_USERS = frozenset({"terminated", "pool_stopped"})
"""Findings that a user has caused: reported only by alerts that name them."""

Key = tuple[str, str]
"""Id of a query, and code of a finding."""
Report = dict[str, Any]


@dataclass
class Delivery:
    """State of the reports of one alert."""

    firing: dict[Key, Report] = field(default_factory=dict)
    pending: deque[Report] = field(default_factory=deque)
    delivered_at: datetime.datetime | None = None
    error: str | None = None
    """Why the last report could not be delivered; None after one that was."""
    task: asyncio.Task[None] | None = None


class Alerts:
    """The alerts of one server. Used from one event loop; `delivery` from any thread."""

    def __init__(
        self,
        catalog: Catalog,
        egress: Egress,
        findings: Callable[[Query], list[Finding]],
        *,
        interval_s: float = INTERVAL_S,
        first_delay_s: float = 1.0,
    ) -> None:
        self._catalog = catalog
        self._egress = egress
        self._findings = findings
        self._interval_s = interval_s
        self._first_delay_s = first_delay_s
        self._deliveries: dict[str, Delivery] = {}

    def delivery(self, alert_id: str) -> Delivery:
        """Return the state of the reports of an alert."""
        return self._deliveries.get(alert_id) or Delivery()

    async def run(self) -> None:
        """Look at the findings until cancelled; reports that are not delivered then are dropped."""
        try:
            while True:
                await asyncio.sleep(self._interval_s)
                try:
                    await self.look()
                except Exception:
                    log.exception("alerts_not_evaluated")
        finally:
            tasks = [each.task for each in self._deliveries.values() if each.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def look(self) -> None:
        """Compare the findings with those that were reported, and queue a report for each difference."""
        alerts = {alert.id: alert for alert in self._catalog.alerts.all()}
        for gone in self._deliveries.keys() - alerts.keys():
            if (task := self._deliveries.pop(gone).task) is not None:
                task.cancel()
        for alert in alerts.values():
            present = await asyncio.to_thread(self._present, alert)
            delivery = self._deliveries.setdefault(alert.id, Delivery())
            reports = [report for key, report in present.items() if key not in delivery.firing]
            reports += [
                {**report, "status": "resolved", "at": _now()}
                for key, report in delivery.firing.items()
                if key not in present
            ]
            delivery.firing = {key: delivery.firing.get(key, report) for key, report in present.items()}
            self._queue(alert, delivery, reports)

    def _present(self, alert: AlertFacts) -> dict[Key, Report]:
        return {
            (query.id, finding.code): _report(alert, query, finding)
            for query in self._queries(alert)
            for finding in self._findings(query)
            if (
                finding.code in alert.codes
                if alert.codes
                else finding.warns and finding.code not in _BY_USERS
            )
        }

    def _queries(self, alert: AlertFacts) -> Iterator[Query]:
        """Yield the queries of an alert that its owner may describe."""
        queries = self._catalog.unfinished_queries()
        if alert.query_id is not None:
            query = self._catalog.query(alert.query_id)
            queries = [query] if query is not None else []
        policy = self._catalog.snapshot().policy
        yield from (query for query in queries if policy.may(alert.owner, Privilege.USAGE, query))

    def _queue(self, alert: AlertFacts, delivery: Delivery, reports: list[Report]) -> None:
        for report in reports:
            if len(delivery.pending) == PENDING_MAX:
                dropped = delivery.pending.popleft()
                log.warning(
                    "alert_report_dropped",
                    alert=alert.name,
                    query_id=dropped["query"]["id"],
                    code=dropped["code"],
                )
            delivery.pending.append(report)
        if delivery.pending and (delivery.task is None or delivery.task.done()):
            delivery.task = asyncio.create_task(self._deliver(alert, delivery), name=f"alert {alert.name}")

    async def _deliver(self, alert: AlertFacts, delivery: Delivery) -> None:
        while delivery.pending:
            report = delivery.pending[0]
            delivery.error = await self._try(alert, report)
            if delivery.error is None:
                delivery.delivered_at = datetime.datetime.now(datetime.UTC)
            else:
                log.warning("alert_not_delivered", alert=alert.name, host=alert.host, error=delivery.error)
            # The oldest may have been dropped meanwhile, for want of room.
            if delivery.pending and delivery.pending[0] is report:
                delivery.pending.popleft()

    async def _try(self, alert: AlertFacts, report: Report) -> str | None:
        """Send a report, several times if necessary; return why that failed, None if it was accepted."""
        error: str | None = None
        for number in range(TRIES):
            if number:
                await asyncio.sleep(self._first_delay_s * 2 ** (number - 1))
            opened = self._catalog.opened_alert(alert)
            try:
                error, is_final = await asyncio.to_thread(self._send, opened, report)
            except HeadraceError as refused:
                return refused.message
            if error is None or is_final:
                break
        return error

    def _send(self, alert: Alert, report: Report) -> tuple[str | None, bool]:
        """Return why the receiver did not accept a report (None: it did), and whether another try is useless.

        Raises UserError 3D008 for an address that the operator does not allow. The answer's text is not read: it is not ours to show.
        """
        url = httpx.URL(alert.properties["url"])
        headers = {"Host": url.netloc.decode(), "User-Agent": f"headrace/{__version__}"}
        if token := alert.properties.get("token"):
            headers["Authorization"] = f"Bearer {token}"
        error = "the host has no address"
        for address in self._egress.addresses(url.host, url.port or (443 if url.scheme == "https" else 80)):
            # To the address that was checked: another look-up may return another one.
            request: dict[str, Any] = {
                "extensions": {"sni_hostname": url.host},
                "headers": headers,
                "json": report,
            }
            try:
                with (
                    httpx.Client(timeout=TIMEOUT_S, follow_redirects=False, trust_env=False) as client,
                    client.stream("POST", url.copy_with(host=address), **request) as answer,
                ):
                    status = answer.status_code
            except httpx.HTTPError as failure:
                error = f"{alert.host} does not accept the request: {type(failure).__name__}"
                continue
            if answer.is_success:
                return None, True
            return f"{alert.host} answers HTTP {status}", status < 500 and status not in (408, 429)
        return error, False


def _report(alert: AlertFacts, query: Query, finding: Finding) -> Report:
    return {
        "alert": alert.name,
        "status": "firing",
        "at": _now(),
        "query": {
            "id": query.id,
            "name": query.name,
            "version": query.version,
            "writes": [str(sink) for sink in query.sinks],
            "state": query.actual_state.value,
        },
        "code": finding.code,
        "step": finding.step,
        "finding": finding.sentence,
        "remedy": finding.remedy,
    }


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
