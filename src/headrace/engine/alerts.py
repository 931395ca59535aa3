"""Alerts: findings of queries as requests to a webhook. ADR 57.

A finding is reported when it appears (`firing`) and when it ends (`resolved`), the words of Prometheus' Alertmanager. What a receiver
has accepted is kept in a file, so that the next server does not report it again. What it has not accepted is reported again.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import structlog

from headrace import __version__
from headrace.catalog.access import Privilege
from headrace.catalog.catalog import Catalog
from headrace.catalog.objects import Alert, AlertFacts, Query
from headrace.connectors.egress import Egress
from headrace.core.atomic_file import write_atomically
from headrace.core.errors import ErrorDomain, HeadraceError
from headrace.engine.findings import Finding

log = structlog.get_logger()

INTERVAL_S = 2.0
"""Between two looks at the findings."""
TIMEOUT_S = 10.0
TRIES = 8
"""With delays that double from a second on, about two minutes: longer than the restart of a receiver takes."""
PENDING_MAX = 100
"""Reports of an alert that wait for its receiver. Beyond them the oldest are dropped, which the log reports."""
GRACE_S = 120.0
"""After a start, a finding that was reported before it may be absent for this long: most findings need batches of a minute."""
_BY_USERS = frozenset({"terminated", "pool_stopped"})
"""Findings that a user has caused: reported only by alerts that name them."""

Key = tuple[str, str]
"""Id of a query, and code of a finding."""
Report = dict[str, Any]


@dataclass
class Delivery:
    """State of the reports of one alert."""

    firing: dict[Key, Report] = field(default_factory=dict)
    accepted: dict[Key, Report] = field(default_factory=dict)
    """Reports that the receiver has accepted, of findings whose end it has not."""
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
        file: Path,
        *,
        interval_s: float = INTERVAL_S,
        first_delay_s: float = 1.0,
        grace_s: float = GRACE_S,
    ) -> None:
        self._catalog = catalog
        self._egress = egress
        self._findings = findings
        self._interval_s = interval_s
        self._first_delay_s = first_delay_s
        self._file = file
        self._earlier = {
            alert_id: Delivery(firing=dict(accepted), accepted=accepted)
            for alert_id, accepted in _read(file).items()
        }
        self._deliveries: dict[str, Delivery] = {}
        self._grace_until = time.monotonic() + grace_s

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
        for gone in self._earlier.keys() - alerts.keys():
            del self._earlier[gone]
        for alert in alerts.values():
            present = await asyncio.to_thread(self._present, alert)
            delivery = self._deliveries.setdefault(alert.id, self._earlier.pop(alert.id, Delivery()))
            if time.monotonic() < self._grace_until:
                present = {**delivery.accepted, **present}
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
                await self._keep(delivery, report)
            else:
                log.warning("alert_not_delivered", alert=alert.name, host=alert.host, error=delivery.error)
            # The oldest may have been dropped meanwhile, for want of room.
            if delivery.pending and delivery.pending[0] is report:
                delivery.pending.popleft()

    async def _keep(self, delivery: Delivery, report: Report) -> None:
        """Record that a receiver has accepted a report."""
        key = _key(report)
        if report["status"] == "firing":
            delivery.accepted[key] = report
        else:
            delivery.accepted.pop(key, None)
        accepted = {
            alert_id: list(each.accepted.values())
            for alert_id, each in (self._earlier | self._deliveries).items()
            if each.accepted
        }
        try:
            await asyncio.to_thread(write_atomically, self._file, json.dumps(accepted, ensure_ascii=False))
        except OSError as error:
            log.warning("alerts_not_kept", reason=error.strerror)

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
                error, is_final = refused.message, refused.domain is ErrorDomain.USER
            if error is None or is_final:
                break
        return error

    def _send(self, alert: Alert, report: Report) -> tuple[str | None, bool]:
        """Return why the receiver did not accept a report (None: it did), and whether another try is useless.

        Raises UserError 3D008 for an address that the operator does not allow, ExternalError 57015 for a host that is not
        known now. The answer's text is not read: it is not ours to show.
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


def _key(report: Report) -> Key:
    return report["query"]["id"], report["code"]


def _read(file: Path) -> dict[str, dict[Key, Report]]:
    """Return the accepted reports of each alert; none if there is no file, or if it is damaged."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return {
            alert_id: {_key(report): report for report in reports} for alert_id, reports in content.items()
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        log.warning("alerts_not_read", file=str(file))
        return {}


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
