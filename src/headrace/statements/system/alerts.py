"""Alerts as a system relation."""

from __future__ import annotations

from headrace.core.schema import Column
from headrace.core.types import BIGINT, TIMESTAMP, VARCHAR
from headrace.statements.base import Execution
from headrace.statements.system.relation import Reference, Rows, always, owned, system_relation


@system_relation(
    "alerts",
    always("name"),
    Column("query_id", VARCHAR),
    Column("codes", VARCHAR),
    always("host"),
    always("firing", BIGINT),
    always("pending", BIGINT),
    Column("delivered_at", TIMESTAMP),
    Column("error", VARCHAR),
    always("owner"),
    always("created_at", TIMESTAMP),
    always("updated_at", TIMESTAMP),
    key=("name",),
    references=(
        owned("alerts"),
        Reference("query", "queries", ("query_id",), "alerts"),
    ),
    doc=(
        "The alerts. `query_id` is NULL for an alert on the organization, and `codes` for one that reports all findings that warn. "
        "`firing` are the findings that were reported and are still there, `pending` the reports that wait for the receiver, and `error` "
        "is why the last one was not delivered."
    ),
)
def alerts(run: Execution) -> Rows:
    for alert in run.visible(run.catalog.alerts.all()):
        delivery = run.services.engine.alerts.delivery(alert.id)
        yield (
            alert.name,
            alert.query_id,
            ", ".join(alert.codes) or None,
            alert.host,
            len(delivery.firing),
            len(delivery.pending),
            delivery.delivered_at,
            delivery.error,
            alert.owner,
            alert.created_at,
            alert.updated_at,
        )
