"""The driver half of the Kinesis store type. See `connectors.streaming` for what each function promises.

boto3 is imported where it is used: every driver loads this module, and few read Kinesis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headrace.connectors.kinesis.failures import classified, classify

__all__ = ["CLASSES", "NOISY_LOGGERS", "classify", "probe", "secrets"]

CLASSES: tuple[str, ...] = ()
NOISY_LOGGERS: tuple[str, ...] = ()


def probe(properties: Mapping[str, str]) -> Callable[[], None]:
    """Asks for one stream's name."""
    from headrace.connectors.kinesis.client import kinesis

    with classified(properties):
        client = kinesis(properties)

    def ask() -> None:
        with classified(properties):
            client.list_streams(Limit=1)

    return ask


def secrets(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Values to mask in logs and errors."""
    from headrace.connectors.kinesis.options import SECRET_ACCESS_KEY

    secret = properties.get(SECRET_ACCESS_KEY.name)
    return (secret,) if secret else ()
