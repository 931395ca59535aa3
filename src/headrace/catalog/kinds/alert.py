"""Alerts, which may name a secret. The query of an alert is known by its id: a query is never dropped."""

from __future__ import annotations

from dataclasses import replace

from headrace.catalog.kinds.secret import SECRET, renamed_secret, used_secrets
from headrace.catalog.kinds.spec import Definition, KindSpec, Stored
from headrace.catalog.objects import AlertFacts
from headrace.core.sqlstate import SqlState


def _write(alert: AlertFacts) -> Definition:
    return {
        "query_id": alert.query_id,
        "codes": alert.codes,
        "host": alert.host,
        "secrets": dict(alert.secrets),
    }


def _read(stored: Stored) -> AlertFacts:
    definition = stored.definition
    return AlertFacts(
        name=stored.name,
        query_id=definition["query_id"],
        codes=tuple(definition["codes"]),
        host=definition["host"],
        owner=stored.owner,
        created_at=stored.created_at,
        updated_at=stored.updated_at,
        secrets=definition["secrets"],
        id=stored.id,
    )


def _renamed(alert: AlertFacts, kind: str, old: str, new: str) -> AlertFacts:
    if kind == SECRET.kind:
        return replace(alert, secrets=renamed_secret(alert.secrets, old, new))
    return alert


ALERT = KindSpec(
    kind="alert",
    value=AlertFacts,
    path=lambda alert: (alert.name,),
    write=_write,
    read=_read,
    duplicate=SqlState.DUPLICATE_ALERT,
    missing=SqlState.ALERT_NOT_FOUND,
    uses=lambda alert: used_secrets(alert.secrets),
    renamed=_renamed,
)
