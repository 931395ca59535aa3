"""The driver half of the ClickHouse store type. See `connectors.streaming` for what each function promises.

What it needs is imported where it is used: every driver loads this module, and few know a ClickHouse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headrace.connectors.carried_errors import carried
from headrace.core.errors import HeadraceError

__all__ = ["CLASSES", "NOISY_LOGGERS", "classify", "probe", "secrets"]

CLASSES: tuple[str, ...] = ()
NOISY_LOGGERS: tuple[str, ...] = ()
_PROBE_TIMEOUT_S = 10.0


def probe(properties: Mapping[str, str]) -> Callable[[], None]:
    """Asks by a connection that stays open."""
    from headrace.connectors.clickhouse.client import ClickHouse

    return ClickHouse(properties, timeout_s=_PROBE_TIMEOUT_S).ping


def classify(text: str) -> HeadraceError | None:
    """Our own errors come through Spark as texts; others are never left as they are."""
    return carried(text)


def secrets(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Values to mask in logs and errors."""
    from headrace.connectors.clickhouse.options import PASSWORD

    return (properties[PASSWORD.name],)
