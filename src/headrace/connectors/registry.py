"""Which store types there are."""

from __future__ import annotations

import importlib

from headrace.connectors.base import Connector
from headrace.core.errors import Span, UserError
from headrace.core.sqlstate import SqlState

CONNECTORS: dict[str, str] = {"kafka": "headrace.connectors.kafka.admin:KafkaConnector"}
_loaded: dict[str, Connector] = {}


def connector(store_type: str, *, span: Span | None = None) -> Connector:
    """The connector of a store type, any case; loaded on first use, because client libraries are heavy.

    Raises UserError 3D008 for an unknown type.
    """
    name = store_type.lower()
    if name not in CONNECTORS:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"unknown store type {store_type!r}",
            hint=f"Use one of {', '.join(sorted(known.upper() for known in CONNECTORS))}.",
            span=span,
        )
    if name not in _loaded:
        module, _, attribute = CONNECTORS[name].partition(":")
        _loaded[name] = getattr(importlib.import_module(module), attribute)()
    return _loaded[name]
