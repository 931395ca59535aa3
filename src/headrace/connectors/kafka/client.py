"""A store's typed properties as the options of the two Kafka clients: Java's, inside Spark, and librdkafka.

Source: dialect section 6.1; `options.py` has checked the properties. JAAS text is composed here from typed
fields, escapes every character that could end a value, and never comes from a user.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.connectors.kafka.options import PROPERTIES, TOKEN_MECHANISMS
from headrace.connectors.kafka.tokens import extensions, token
from headrace.core.properties import secret_values

_LOGIN_MODULES = {
    "PLAIN": ("PLAIN", "org.apache.kafka.common.security.plain.PlainLoginModule"),
    "SHA256": ("SCRAM-SHA-256", "org.apache.kafka.common.security.scram.ScramLoginModule"),
    "SHA512": ("SCRAM-SHA-512", "org.apache.kafka.common.security.scram.ScramLoginModule"),
}


def uses_tokens(properties: Mapping[str, str]) -> bool:
    """True if the store logs in with tokens, which are renewed all the time."""
    return _mechanism(properties) in TOKEN_MECHANISMS


def spark_options(properties: Mapping[str, str]) -> dict[str, str]:
    """Return `kafka.*` options of Spark's Kafka source and sink for a store, with the store's secrets.

    The options do not contain the credentials of a store that uses tokens: see `spark.tokens`.
    """
    options = {
        "kafka.bootstrap.servers": properties["uris"],
        "kafka.security.protocol": _protocol(properties),
    }
    if _mechanism(properties) in _LOGIN_MODULES:
        mechanism, module = _LOGIN_MODULES[_mechanism(properties)]
        username = _quoted(properties["kafka.sasl.username"])
        password = _quoted(properties["kafka.sasl.password"])
        options["kafka.sasl.mechanism"] = mechanism
        options["kafka.sasl.jaas.config"] = f"{module} required username={username} password={password};"
    if is_encrypted(properties):
        if not _verifies_host(properties):
            options["kafka.ssl.endpoint.identification.algorithm"] = ""
        if "tls.ca_cert_file" in properties:
            options["kafka.ssl.truststore.type"] = "PEM"
            options["kafka.ssl.truststore.certificates"] = properties["tls.ca_cert_file"]
        if "tls.client.cert_file" in properties:
            options["kafka.ssl.keystore.type"] = "PEM"
            options["kafka.ssl.keystore.certificate.chain"] = properties["tls.client.cert_file"]
            options["kafka.ssl.keystore.key"] = properties["tls.client.key_file"]
    return options


def client_options(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return librdkafka's options for a store, with the store's secrets. Raises ExternalError 57015 if a required token is not
    available.

    librdkafka's log to standard error is off, since errors are raised.
    """
    options: dict[str, Any] = {
        "bootstrap.servers": properties["uris"],
        "security.protocol": _protocol(properties),
        "log_level": 0,
    }
    if uses_tokens(properties):
        token(properties)  # This reports the reason at once; the callback would report it after ten seconds.
        options["sasl.mechanism"] = "OAUTHBEARER"
        options["oauth_cb"] = lambda _config: _token_of(properties)
    elif _mechanism(properties):
        options["sasl.mechanism"] = _LOGIN_MODULES[_mechanism(properties)][0]
        options["sasl.username"] = properties["kafka.sasl.username"]
        options["sasl.password"] = properties["kafka.sasl.password"]
    if is_encrypted(properties):
        if not _verifies_host(properties):
            options["ssl.endpoint.identification.algorithm"] = "none"
        if "tls.ca_cert_file" in properties:
            options["ssl.ca.pem"] = properties["tls.ca_cert_file"]
        if "tls.client.cert_file" in properties:
            options["ssl.certificate.pem"] = properties["tls.client.cert_file"]
            options["ssl.key.pem"] = properties["tls.client.key_file"]
    return options


def _token_of(properties: Mapping[str, str]) -> tuple[str, float, str, dict[str, str]]:
    credential = token(properties)
    return credential.text, credential.expires_at, credential.principal, extensions(properties)


def secrets(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return values to mask in logs and errors, in every form in which a client could print them."""
    return tuple(
        form for value in secret_values(properties, PROPERTIES) for form in (value, _quoted(value)[1:-1])
    )


def _mechanism(properties: Mapping[str, str]) -> str:
    name = properties.get("kafka.sasl.hash_function", "NONE").upper()
    return "" if name == "NONE" else name


def is_encrypted(properties: Mapping[str, str]) -> bool:
    """True if a store's connections are over TLS."""
    return properties.get("tls.disabled", "FALSE").upper() != "TRUE"


def _verifies_host(properties: Mapping[str, str]) -> bool:
    return properties.get("tls.verify_server_hostname", "TRUE").upper() != "FALSE"


def _protocol(properties: Mapping[str, str]) -> str:
    carrier = "SSL" if is_encrypted(properties) else "PLAINTEXT"
    return f"SASL_{carrier}" if _mechanism(properties) else carrier


def _quoted(value: str) -> str:
    """Return `value` as a JAAS string: Java reads it with `StreamTokenizer`, which knows these escapes."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"}
    return '"' + "".join(escapes.get(character, character) for character in value) + '"'
