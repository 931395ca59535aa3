"""Login of Java's clients with tokens: they request tokens from this process, so the JVM's settings contain no secrets."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from headrace.connectors.kafka.client import spark_options, uses_tokens
from headrace.connectors.kafka.tokens import extensions, token
from headrace.core.errors import HeadraceError

_names: dict[tuple[tuple[str, str], ...], str] = {}
"""What each store that has been used is called there."""


def java_options(session: SparkSession, properties: Mapping[str, str]) -> dict[str, str]:
    """Return `spark_options`, with a login by tokens if the store uses them."""
    options = spark_options(properties)
    if not uses_tokens(properties):
        return options
    key = tuple(sorted(properties.items()))
    if key not in _names:
        java: Any = session._jvm
        name = str(uuid.uuid4())
        java.io.headrace.spark.KafkaLogin.register(name, _Tokens(properties))
        _names[key] = name
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    return options | {
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.jaas.config": f'{module} required store="{_names[key]}";',
        "kafka.sasl.login.callback.handler.class": "io.headrace.spark.KafkaLogin",
    }


class _Tokens:
    """Java's `Supplier` of a store's tokens, see `KafkaLogin.register`."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = dict(properties)

    def get(self) -> str:
        try:
            credential = token(self._properties)
        except HeadraceError as error:
            return json.dumps({"error": error.message})
        return json.dumps(
            {
                "token": credential.text,
                "principal": credential.principal,
                "expiresMs": int(credential.expires_at * 1000),
                "extensions": extensions(self._properties),
            }
        )

    class Java:
        implements = ("java.util.function.Supplier",)
