"""Search for the step at which a connection fails if no broker answers: DNS, TCP, TLS or Kafka itself, each tried with plain sockets.

Errors that a Kafka broker itself reports (authentication, authorization, a topic) are in `failures.py`.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from headrace.connectors.hosts import resolve
from headrace.connectors.kafka.client import is_encrypted
from headrace.core.errors import ExternalError
from headrace.core.sqlstate import SqlState

_WAIT_S = 2.0
_ADDRESSES_MAX = 8
_DNS, _TCP, _TLS, _KAFKA = range(4)


def failing_step(properties: Mapping[str, str]) -> ExternalError:
    """Return error 57015 for the address in `uris` with the most successful steps, with the step that fails."""
    addresses = properties["uris"].split(",")[:_ADDRESSES_MAX]
    with ThreadPoolExecutor(len(addresses)) as pool:
        failures = list(pool.map(lambda address: _failure(address, is_encrypted(properties)), addresses))
    _, message, hint = max(failures, key=lambda failure: failure[0])
    return ExternalError(SqlState.REMOTE_UNAVAILABLE, message, hint=hint)


def _failure(address: str, encrypted: bool) -> tuple[int, str, str]:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        resolve(host, int(port))
    except ExternalError as error:
        return _DNS, error.message, error.hint or ""
    try:
        connection = socket.create_connection((host, int(port)), timeout=_WAIT_S)
    except TimeoutError:
        hint = "Check 'uris', and firewalls between."
        return _TCP, f"TCP: {address} does not answer within {_WAIT_S:.0f} s", hint
    except OSError:
        hint = "Check 'uris', that the broker runs, and firewalls between."
        return _TCP, f"TCP: nothing accepts connections at {address}", hint
    with connection:
        if encrypted and not _speaks_tls(connection):
            hint = "Check the port in 'uris'; 'tls.disabled' = TRUE is for listeners without TLS."
            return _TLS, f"TLS: {address} accepts connections and does not speak TLS", hint
    hint = "Check the port in 'uris', and that 'tls.disabled' and 'kafka.sasl.hash_function' are what the listener expects."
    return _KAFKA, f"Kafka: {address} accepts connections and does not answer as Kafka", hint


def _speaks_tls(connection: socket.socket) -> bool:
    """True if there is an answer in TLS, even a refusal: the client judges whom to trust."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        context.wrap_socket(connection).close()
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")
    except OSError:
        return False
    return True
