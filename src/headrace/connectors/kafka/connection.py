"""How long librdkafka's admin client waits: not long for a broker that is not there, long for one that is busy.

librdkafka waits for the whole time-out where every connection is refused. So a broker is asked for little first, again and
again, and what the connections reported is looked at in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its types name them elsewhere
    AdminClient,
    ClusterMetadata,
)

from headrace.connectors.kafka.client import client_options
from headrace.connectors.kafka.failures import is_final, of_client

# What Java's clients wait for an answer. A broker that is there may need seconds to create a topic: it waits for its disk.
REQUEST_TIMEOUT_S = 30.0
# For a broker that is just being started again, and refuses connections until it listens.
REFUSED_TIMEOUT_S = 2.0
_PROBE_S = 0.5
_PRESENCE_S = 5.0


def connect(properties: Mapping[str, str]) -> tuple[AdminClient, ClusterMetadata]:
    """An admin client of a store that a broker has answered, and the answer: brokers and topics.

    Callers keep the client in a variable: one that is collected cancels what it was asked.

    Raises `KafkaException`: at once with a refusal that asking again does not change, with the first connection's failure
    after `REFUSED_TIMEOUT_S` when no broker can be connected to, with `_TIMED_OUT` after `REQUEST_TIMEOUT_S` when none says anything.
    """
    failures: list[KafkaError] = []
    settings: dict[str, Any] = {
        **client_options(properties),
        "socket.timeout.ms": int(REQUEST_TIMEOUT_S * 1000),
        "error_cb": failures.append,
    }
    admin = AdminClient(settings)
    started = time.monotonic()
    waited = 0.0
    while True:
        # Once it is clear that nothing refuses, in one piece: a far broker with many topics may need long for one answer.
        timeout = _PROBE_S if waited < REFUSED_TIMEOUT_S else REQUEST_TIMEOUT_S - waited
        try:
            return admin, admin.list_topics(timeout=timeout)
        except KafkaException as error:
            waited = time.monotonic() - started
            admin.poll(0)  # the callback runs in here
            # Reasons first: that all brokers are down follows from them.
            failures.sort(key=lambda failure: failure.code() == KafkaError._ALL_BROKERS_DOWN)
            reason = failures[0] if failures else error.args[0]
            all_down = bool(failures) and failures[-1].code() == KafkaError._ALL_BROKERS_DOWN
            refused = all_down and (waited >= REFUSED_TIMEOUT_S or is_final(reason))
            if refused or waited >= REQUEST_TIMEOUT_S:
                raise KafkaException(reason) from None


def probe(properties: Mapping[str, str]) -> Callable[[], None]:
    """A function that asks a store's brokers for little, over one client: see `connectors.streaming`."""
    failures: list[KafkaError] = []
    settings: dict[str, Any] = {
        **client_options(properties),
        # So that one that is back is found soon.
        "reconnect.backoff.max.ms": 1000,
        "error_cb": failures.append,
    }
    admin = AdminClient(settings)

    def ask() -> None:
        try:
            admin.describe_cluster(request_timeout=_PRESENCE_S).result()
        except KafkaException as error:
            admin.poll(0)  # the callback runs in here
            refused = next((failure for failure in failures if is_final(failure)), error.args[0])
            raise of_client(KafkaException(refused), uris=properties["uris"]) from None
        finally:
            failures.clear()

    return ask
