"""Tokens for stores without a password: OAUTHBEARER requests them from an issuer by client credentials, AWS_MSK_IAM from `msk`.

Both of Kafka's clients use this module: librdkafka by its `oauth_cb`, Java's by a login handler that sends a request to this process.
So a single HTTP client contacts issuers, and Java never receives a client secret.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Mapping

import httpx

from headrace.connectors.kafka.token import USED_FOR, Token
from headrace.connectors.tls import TLS_CA
from headrace.core.errors import ExternalError
from headrace.core.sqlstate import SqlState

ANSWER_BYTES_MAX = 256 * 1024
_TIMEOUT_S = 10.0
_ERRORS = (
    "invalid_request",
    "invalid_client",
    "invalid_grant",
    "unauthorized_client",
    "unsupported_grant_type",
    "invalid_scope",
)


_lock = threading.Lock()
_known: dict[tuple[tuple[str, str], ...], Token] = {}


def token(properties: Mapping[str, str]) -> Token:
    """Return the token of a store: the last one while it is fresh, else a new one.

    Raises ExternalError 57015 when its issuer does not answer or refuses it.
    """
    key = tuple(sorted(properties.items()))
    now = time.time()
    with _lock:
        known = _known.get(key)
    if known is not None and now < known.fresh_until:
        return known
    if properties["kafka.sasl.hash_function"] == "AWS_MSK_IAM":
        from headrace.connectors.kafka.msk import signed  # AWS's libraries take long to load

        fetched = signed(properties)
    else:
        fetched = _issued(properties)
    with _lock:
        for other in [other for other, old in _known.items() if old.expires_at < now]:
            del _known[other]
        _known[key] = fetched
    return fetched


def extensions(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the extensions sent beside the token, as Confluent Cloud requires for its cluster."""
    text = properties.get("kafka.sasl.oauthbearer.extensions", "")
    return dict(part.split("=", 1) for part in text.split(",") if part)


def _issued(properties: Mapping[str, str]) -> Token:
    endpoint = properties["kafka.sasl.oauthbearer.token.endpoint.url"]
    client = properties["kafka.sasl.oauthbearer.client.id"]
    form = {"grant_type": "client_credentials"}
    if "kafka.sasl.oauthbearer.scope" in properties:
        form["scope"] = properties["kafka.sasl.oauthbearer.scope"]
    # The issuer may be a public one where the brokers' authority is the user's own.
    trusted = ssl.create_default_context()
    if TLS_CA.name in properties:
        trusted.load_verify_locations(cadata=properties[TLS_CA.name])
    requested_at = time.time()
    status, answer = _posted(
        endpoint, form, (client, properties["kafka.sasl.oauthbearer.client.secret"]), trusted
    )
    if status != 200:
        # Only error codes of the standard are repeated: the address may be any server.
        error_code = answer.get("error")
        reason = error_code if error_code in _ERRORS else f"HTTP status {status}"
        raise _refusal(f"the token endpoint {endpoint} gives no token: {reason}")
    match answer:
        case {"access_token": str() as text, "expires_in": int() | float() as lifetime} if lifetime > 0:
            return Token(text, client, requested_at + lifetime, requested_at + lifetime * USED_FOR)
    raise _refusal(f"the token endpoint {endpoint} returned no 'access_token' and 'expires_in'")


def _posted(
    endpoint: str, form: Mapping[str, str], credentials: tuple[str, str], trusted: ssl.SSLContext
) -> tuple[int, dict[str, object]]:
    client = httpx.Client(verify=trusted, timeout=_TIMEOUT_S, follow_redirects=False, trust_env=False)
    started = time.monotonic()
    content = bytearray()
    try:
        with (
            client,
            client.stream("POST", endpoint, data=dict(form), auth=httpx.BasicAuth(*credentials)) as response,
        ):
            for part in response.iter_bytes():
                content += part
                if len(content) > ANSWER_BYTES_MAX or time.monotonic() > started + _TIMEOUT_S:
                    raise _refusal(f"the token endpoint {endpoint} returned too long a response")
    except httpx.HTTPError as error:
        untrusted = "CERTIFICATE_VERIFY_FAILED" in str(error)
        reason = "its certificate is not trusted" if untrusted else "it does not answer over HTTPS"
        raise _refusal(f"no token from {endpoint}: {reason}") from None
    try:
        answer = json.loads(bytes(content))
    except (ValueError, RecursionError):
        answer = None
    return response.status_code, answer if isinstance(answer, dict) else {}


def _refusal(message: str) -> ExternalError:
    return ExternalError(
        SqlState.REMOTE_UNAVAILABLE,
        f"authentication: {message}",
        hint="Check 'kafka.sasl.oauthbearer.…', and 'tls.ca_cert_file' if no public authority signed the issuer's certificate.",
    )
