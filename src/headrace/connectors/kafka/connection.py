"""Timeouts of librdkafka's admin client: short for an absent broker, long for a busy one.

If every connection is refused, librdkafka waits for the whole time-out. The first request is therefore small and is repeated with
short time-outs, and the errors that connections reported are checked in between.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection, Uuid
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its types name them elsewhere
    AdminClient,
    ClusterMetadata,
    TopicDescription,
)

from headrace.connectors.kafka.client import client_options
from headrace.connectors.kafka.failures import is_final, is_silence, of_client
from headrace.connectors.kafka.patterns import pattern
from headrace.connectors.kafka.steps import failing_step
from headrace.core.names import EntityPath

# The request time-out of Java's clients. A healthy broker may need seconds to create a topic, since it waits for its disk.
REQUEST_TIMEOUT_S = 30.0
# For a broker that is just being started again, and refuses connections until it listens.
REFUSED_TIMEOUT_S = 2.0
_PROBE_S = 0.5
_PRESENCE_S = 5.0
_NO_ID = str(Uuid(0, 0))
"""Of a topic of a broker that gives topics no ids: Kafka's does since 2.8."""

logger = logging.getLogger(__name__)


def connect(properties: Mapping[str, str]) -> tuple[AdminClient, ClusterMetadata]:
    """Return a store's admin client to which a broker has answered, and the answer: brokers and topics.

    Callers keep the client in a variable: a garbage-collected client cancels its requests.

    Raises `KafkaException` at once for an error that a retry does not change. Raises ExternalError 57015 with the failing step after
    `REFUSED_TIMEOUT_S` if no broker accepts a connection, after `REQUEST_TIMEOUT_S` if no broker responds.
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
            all_down = any(failure.code() == KafkaError._ALL_BROKERS_DOWN for failure in failures)
            # Permanent errors come first, even if only one address of a host reported one; "all brokers down" follows from others.
            failures.sort(
                key=lambda failure: (not is_final(failure), failure.code() == KafkaError._ALL_BROKERS_DOWN)
            )
            reason = failures[0] if failures else error.args[0]
            refused = all_down and (waited >= REFUSED_TIMEOUT_S or is_final(reason))
            if refused or waited >= REQUEST_TIMEOUT_S:
                if not is_silence(reason):
                    raise KafkaException(reason) from None
                # For the operator: a client's own words.
                logger.warning("Kafka at %s: %s %s", properties["uris"], reason.name(), reason.str())
                raise failing_step(properties) from None


def describe_topic(admin: AdminClient, name: str) -> TopicDescription:
    """Describe a topic by name: the broker then distinguishes a missing one from one that the user may not see.

    Raises KafkaException.
    """
    futures = admin.describe_topics(TopicCollection([name]), request_timeout=REQUEST_TIMEOUT_S)
    description: TopicDescription = futures[name].result()
    return description


def probe(properties: Mapping[str, str]) -> Callable[[], None]:
    """Return a function that sends a small request to a store's brokers, over one client: see `connectors.streaming`."""
    failures: list[KafkaError] = []
    settings: dict[str, Any] = {
        # So that one that is back is found soon.
        "reconnect.backoff.max.ms": 1000,
        "error_cb": failures.append,
    }
    clients: list[AdminClient] = []

    def ask() -> None:
        if not clients:  # inside the loop, since the issuer of a token may be unavailable, like a broker
            clients.append(AdminClient({**client_options(properties), **settings}))
        [admin] = clients
        try:
            admin.describe_cluster(request_timeout=_PRESENCE_S).result()
        except KafkaException as error:
            admin.poll(0)  # the callback runs in here
            refused = next((failure for failure in failures if is_final(failure)), error.args[0])
            raise of_client(KafkaException(refused), uris=properties["uris"]) from None
        finally:
            failures.clear()

    return ask


def identify(properties: Mapping[str, str]) -> Callable[[EntityPath], dict[str, str]]:
    """Return a function that requests the ids of topics over one client: see `connectors.streaming`."""
    clients: list[AdminClient] = []

    def ask(entity: EntityPath) -> dict[str, str]:
        try:
            if not clients:
                clients.append(connect(properties)[0])
            [admin] = clients
            several = pattern(entity)
            names = list(entity)
            if several is not None:
                names = [
                    name for name in admin.list_topics(timeout=_PRESENCE_S).topics if several.matches((name,))
                ]
            return _ids(admin, names)
        except KafkaException as error:
            raise of_client(error, uris=properties["uris"]) from None

    return ask


def _ids(admin: AdminClient, names: list[str]) -> dict[str, str]:
    if not names:
        return {}
    ids: dict[str, str] = {}
    futures = admin.describe_topics(TopicCollection(names), request_timeout=_PRESENCE_S)
    for name, future in futures.items():
        try:
            identity = str(future.result().topic_id)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
        else:
            if identity != _NO_ID:
                ids[name] = identity
    return ids
