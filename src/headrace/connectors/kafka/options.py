"""The properties that Kafka adds to the dialect: for stores, topics and its clients.

Source: dialect sections 6.1, 8 and 9.1. All values are hostile user input: addresses must match one form, only the client properties
that are declared here exist, and JAAS text never comes from a user (`client.py` composes it from these properties).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from headrace.connectors import addresses
from headrace.connectors.kafka.patterns import pattern
from headrace.connectors.tls import (
    CLIENT_TLS,
    TLS,
    TLS_CLIENT_CERT,
    TLS_DISABLED,
    client_tls_properties,
    tls_properties,
)
from headrace.core.errors import UserError
from headrace.core.properties import (
    COUNT,
    LINE,
    PropertyReader,
    PropertySpec,
    PropertyType,
    Scope,
    Specs,
    choice,
    number,
)
from headrace.core.sqlstate import SqlState

_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]([A-Za-z0-9_.-]{0,252}[A-Za-z0-9])?):([0-9]{1,5})\Z")
_OFFSET = re.compile(r"(0|[1-9][0-9]{0,8}):(0|[1-9][0-9]{0,17})\Z")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")
_MECHANISMS = {"PLAIN": "PLAIN", "SCRAM-SHA-256": "SHA256", "SCRAM-SHA-512": "SHA512"}
_HASH_FUNCTIONS = ("NONE", "PLAIN", "SHA256", "SHA512", "OAUTHBEARER", "AWS_MSK_IAM")
TOKEN_MECHANISMS = ("OAUTHBEARER", "AWS_MSK_IAM")
_EXTENSION = re.compile(r"[A-Za-z]+=[\x21-\x2b\x2d-\x7e]+\Z")
_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-[0-9]{1,2}\Z")
_ROLE = re.compile(r"arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/-]{1,512}\Z")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def _addresses(text: str) -> str:
    addresses = [part.strip() for part in text.split(",") if part.strip()]
    if not addresses:
        raise ValueError("expected at least one host:port")
    for address in addresses:
        match = _ADDRESS.match(address)
        if not match or not 0 < int(match.group(3)) < 65536:
            # Nothing of a user's name or password is repeated.
            raise ValueError(f"expected host:port, found {address.rpartition('@')[2]!r}")
    return ",".join(addresses)


def _headers(text: str) -> str:
    try:
        headers = json.loads(text)
    except RecursionError:
        raise ValueError(text) from None
    if not isinstance(headers, dict) or not all(isinstance(value, str | None) for value in headers.values()):
        raise ValueError(text)
    canonical = json.dumps(headers, ensure_ascii=False)
    canonical.encode()  # raises ValueError for half of a surrogate pair
    return canonical


def _https(text: str) -> str:
    form = "an https URL"
    parts = addresses.split(text, form)
    try:
        port = parts.port
    except ValueError:
        port = 0
    if (
        parts.scheme != "https"
        or not parts.hostname
        or port == 0
        or parts.username is not None
        or parts.fragment
    ):
        raise ValueError(f"expected {form}, found {text.rpartition('@')[2]!r}")
    return text


def _extensions(text: str) -> str:
    parts = [part.strip() for part in text.split(",")]
    if not all(_EXTENSION.match(part) and not part.startswith("auth=") for part in parts):
        raise ValueError(text)
    return ",".join(parts)


def _matching(pattern: re.Pattern[str], expected: str) -> PropertyType[str]:
    def read(text: str) -> str:
        if not pattern.match(text):
            raise ValueError(text)
        return text

    return PropertyType(expected, read)


def _starting_offsets(text: str) -> str:
    parts = [part.replace(" ", "") for part in text.split(",")]
    partitions = [part.partition(":")[0] for part in parts]
    if not all(_OFFSET.match(part) for part in parts) or len(set(partitions)) < len(parts):
        raise ValueError(text)
    return ",".join(parts)


def _mechanism(text: str) -> str:
    return _MECHANISMS.get(text.upper(), text.upper())


# --- stores

URIS = PropertySpec(
    "uris",
    PropertyType("", _addresses),
    Scope.STORE,
    "`host:port` of the brokers, separated by commas; nothing else is accepted",
    default="needed",
)
HASH_FUNCTION = PropertySpec(
    "kafka.sasl.hash_function",
    choice(*_HASH_FUNCTIONS, fold=_mechanism),
    Scope.STORE,
    "`NONE`, `PLAIN`, `SHA256`, `SHA512` (also PLAIN, SCRAM-SHA-256, SCRAM-SHA-512), `OAUTHBEARER`, `AWS_MSK_IAM`",
    default="NONE",
    synonyms=("sasl.mechanism",),
)
USERNAME = PropertySpec(
    "kafka.sasl.username",
    LINE,
    Scope.STORE,
    "the user; required with PLAIN, SHA256 and SHA512, otherwise refused",
    synonyms=("sasl.username",),
)
PASSWORD = PropertySpec(
    "kafka.sasl.password",
    LINE,
    Scope.STORE,
    "the password; required and refused like the user",
    secret=True,
    synonyms=("sasl.password",),
)
_ISSUER = "kafka.sasl.oauthbearer."
TOKEN_ENDPOINT = PropertySpec(
    f"{_ISSUER}token.endpoint.url",
    PropertyType("", _https),
    Scope.STORE,
    "OAUTHBEARER: the URL that issues tokens for client credentials; it must be `https`, since a secret is sent to it",
    synonyms=("sasl.oauthbearer.token.endpoint.url",),
)
CLIENT_ID = PropertySpec(
    f"{_ISSUER}client.id",
    LINE,
    Scope.STORE,
    "OAUTHBEARER: the client's id",
    synonyms=("sasl.oauthbearer.client.id",),
)
CLIENT_SECRET = PropertySpec(
    f"{_ISSUER}client.secret",
    LINE,
    Scope.STORE,
    "OAUTHBEARER: the client's secret",
    secret=True,
    synonyms=("sasl.oauthbearer.client.secret",),
)
TOKEN_SCOPE = PropertySpec(
    f"{_ISSUER}scope",
    LINE,
    Scope.STORE,
    "OAUTHBEARER: the requested scope",
    default="none",
    synonyms=("sasl.oauthbearer.scope",),
)
EXTENSIONS = PropertySpec(
    f"{_ISSUER}extensions",
    PropertyType("name=value, separated by commas", _extensions),
    Scope.STORE,
    "OAUTHBEARER: extensions that the broker receives with the token, such as `logicalCluster=lkc-1,identityPoolId=pool-1`",
    default="none",
    synonyms=("sasl.oauthbearer.extensions",),
)
MSK_REGION = PropertySpec(
    "kafka.msk.aws_region",
    _matching(_REGION, "an AWS region such as us-east-1"),
    Scope.STORE,
    "AWS_MSK_IAM: the region of the cluster",
)
MSK_ROLE = PropertySpec(
    "kafka.msk.iam_role_arn",
    _matching(_ROLE, "the ARN of an IAM role"),
    Scope.STORE,
    "AWS_MSK_IAM: the role to assume, which must trust the AWS identity under which the server runs",
)
SECURITY_PROTOCOL = PropertySpec(
    "security.protocol",
    choice(*_PROTOCOLS, fold=str.upper),
    Scope.STORE,
    "must agree with `tls.disabled` and the hash function: values that end in SSL are with TLS, values that start with SASL have "
    "a hash function",
)

# --- topics

_MADE = Scope.ENTITY | Scope.RELATION | Scope.SINK
TOPIC = PropertySpec(
    "topic",
    LINE,
    Scope.RELATION | Scope.SINK,
    "the topic; a stream may read [several topics](queries.md#several-topics): `'orders_eu; orders_us'`, `'orders_*'`",
    default="the relation's name",
)
PARTITIONS = PropertySpec(
    "topic.partitions",
    COUNT,
    _MADE,
    "of a created topic; for an existing topic, the number must match",
    default="1; in CREATE … AS the leftmost source's",
    synonyms=("kafka.partitions",),
)
REPLICAS = PropertySpec(
    "topic.replicas",
    COUNT,
    _MADE,
    "of a created topic; for an existing topic, the number must match",
    default="the broker's; in CREATE … AS the leftmost source's",
    synonyms=("kafka.replicas",),
)
LAYOUT = {"partitions": PARTITIONS, "replicas": REPLICAS}
TOPIC_CONFIGS = PropertySpec(
    "kafka.topic.",
    LINE,
    _MADE,
    "of a created topic: any topic setting, such as `kafka.topic.cleanup.policy`; the broker checks it",
    default="the broker's",
    open=True,
)

# --- clients

_CONSUMER, _PRODUCER = "kafka.consumer.", "kafka.producer."
STARTING_OFFSETS = PropertySpec(
    "starting.position.offsets",
    PropertyType("partition:offset, separated by commas", _starting_offsets),
    Scope.RELATION | Scope.SOURCE | Scope.PRINT,
    "`'0:1200, 1:980'`: the first record of each listed partition, for PRINT and for a query without a checkpoint; other "
    "partitions start at `starting.position`",
)


def _passed_on(prefix: str, names: Iterable[str], scope: Scope) -> tuple[PropertySpec[str], ...]:
    return tuple(PropertySpec(prefix + name, LINE, scope, "passed on to Kafka's client") for name in names)


CONSUMER = _passed_on(
    _CONSUMER,
    (
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "max.partition.fetch.bytes",
        "max.poll.records",
        "receive.buffer.bytes",
        "request.timeout.ms",
    ),
    Scope.RELATION | Scope.SOURCE,
)
PRODUCER = _passed_on(
    _PRODUCER,
    (
        "batch.size",
        "compression.type",
        "delivery.timeout.ms",
        "linger.ms",
        "max.request.size",
        "request.timeout.ms",
    ),
    Scope.RELATION | Scope.SINK | Scope.INSERT | Scope.VIEW,
)

_PASSWORD = (USERNAME, PASSWORD)
_CREDENTIALS: dict[str, tuple[tuple[PropertySpec[str], ...], tuple[PropertySpec[str], ...]]] = {
    "NONE": ((), ()),
    "PLAIN": (_PASSWORD, ()),
    "SHA256": (_PASSWORD, ()),
    "SHA512": (_PASSWORD, ()),
    "OAUTHBEARER": ((TOKEN_ENDPOINT, CLIENT_ID, CLIENT_SECRET), (TOKEN_SCOPE, EXTENSIONS)),
    "AWS_MSK_IAM": ((MSK_REGION, MSK_ROLE), ()),
}
"""By hash function: the properties that it needs, and others that it takes."""
_ALL_CREDENTIALS = tuple(
    dict.fromkeys(spec for both in _CREDENTIALS.values() for specs in both for spec in specs)
)

STORE: Specs = (URIS, HASH_FUNCTION, *_ALL_CREDENTIALS, *TLS, *CLIENT_TLS, SECURITY_PROTOCOL)
RECORD_PARTITION = PropertySpec(
    "partition",
    number(0, 2**31 - 1, "the number of a partition"),
    Scope.RECORD,
    "the partition that the record is written to",
    default="the partition that the key selects",
)
RECORD_HEADERS = PropertySpec(
    "headers",
    PropertyType("""a JSON object of texts, such as '{"source": "test"}'""", _headers),
    Scope.RECORD,
    "the record's headers: a JSON object whose values are texts or `null`",
    default="none",
)
RECORD: Specs = (RECORD_PARTITION, RECORD_HEADERS)
PROPERTIES: Specs = (
    *STORE,
    TOPIC,
    *LAYOUT.values(),
    TOPIC_CONFIGS,
    STARTING_OFFSETS,
    *RECORD,
    *CONSUMER,
    *PRODUCER,
)


def store_properties(reader: PropertyReader) -> dict[str, str]:
    """Return checked, canonical text properties; raises UserError 3D008 (bad) or 3D021 (missing) at the property."""
    texts = {URIS.name: reader.require(URIS), HASH_FUNCTION.name: reader.take(HASH_FUNCTION) or "NONE"}
    credentials = {spec.name: reader.take(spec) for spec in _ALL_CREDENTIALS}
    texts |= {name: value for name, value in credentials.items() if value}
    _check_credentials(texts, reader)
    protocol = reader.take(SECURITY_PROTOCOL)
    texts |= tls_properties(reader, disabled=protocol is not None and not protocol.endswith("SSL"))
    texts |= client_tls_properties(reader)
    _check_protocol(texts, protocol, reader)
    return texts


def consumer_options(reader: PropertyReader) -> dict[str, str]:
    """Return a source's consumer options, and under its own name the starting position.

    Raises UserError 3D008 for offsets of several topics.
    """
    begins = print_options(reader)
    if begins and pattern((reader.take(TOPIC) or "",)) is not None:
        raise reader.bad(STARTING_OFFSETS, "left out of a stream over several topics")
    return _options(reader, CONSUMER, _CONSUMER) | begins


def print_options(reader: PropertyReader) -> dict[str, str]:
    """Return the starting position of PRINT under its own name."""
    offsets = reader.take(STARTING_OFFSETS)
    return {} if offsets is None else {STARTING_OFFSETS.name: offsets}


def record_options(reader: PropertyReader) -> dict[str, str]:
    """Return the partition and the headers of one record, each under its own name."""
    partition, headers = reader.take(RECORD_PARTITION), reader.take(RECORD_HEADERS)
    texts = {RECORD_HEADERS.name: headers} if headers is not None else {}
    return texts | ({RECORD_PARTITION.name: str(partition)} if partition is not None else {})


def record_place(options: Mapping[str, str]) -> tuple[int, list[tuple[str, str | bytes | None]]]:
    """Return the partition of `record_options`, -1 if the key decides, and the headers."""
    headers = json.loads(options.get(RECORD_HEADERS.name, "{}"))
    return int(options.get(RECORD_PARTITION.name, "-1")), list(headers.items())


def starting_offsets(options: Mapping[str, str]) -> dict[int, int]:
    """Return the offsets by partition of these two functions."""
    pairs = (part.split(":") for part in options.get(STARTING_OFFSETS.name, "").split(",") if part)
    return {int(partition): int(offset) for partition, offset in pairs}


def producer_options(reader: PropertyReader) -> dict[str, str]:
    """Return a sink's producer options."""
    return _options(reader, PRODUCER, _PRODUCER)


def topic_name(entity: str) -> str:
    """Return `entity` when it is a legal topic name; raises UserError 3D008."""
    if not _TOPIC.match(entity) or entity in {".", ".."}:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"{entity!r} is not a legal topic name",
            hint="Use up to 249 letters, digits, '.', '_' and '-'.",
        )
    return entity


def _options(reader: PropertyReader, specs: Iterable[PropertySpec[str]], prefix: str) -> dict[str, str]:
    given = {spec.name.removeprefix(prefix): reader.take(spec) for spec in specs}
    return {name: value for name, value in given.items() if value is not None}


def _check_credentials(texts: Mapping[str, str], reader: PropertyReader) -> None:
    mechanism = texts[HASH_FUNCTION.name]
    needed, accepted = _CREDENTIALS[mechanism]
    other = next(
        (spec for spec in _ALL_CREDENTIALS if spec.name in texts and spec not in needed + accepted), None
    )
    if other is not None:
        takers = [name for name, both in _CREDENTIALS.items() if other in both[0] + both[1]]
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"{other.name} requires '{HASH_FUNCTION.name}' = {' or '.join(takers)}, found {mechanism}",
            hint=f"Change '{HASH_FUNCTION.name}', or remove {other.name}.",
            span=reader.span(other),
        )
    missing = [spec.name for spec in needed if spec.name not in texts]
    if missing:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"{mechanism} requires {' and '.join(spec.name for spec in needed)}",
            hint=f"Specify {' and '.join(missing)} too.",
            span=reader.span(HASH_FUNCTION),
        )


def _check_protocol(texts: Mapping[str, str], protocol: str | None, reader: PropertyReader) -> None:
    encrypted = texts[TLS_DISABLED.name] == "FALSE"
    if TLS_CLIENT_CERT.name in texts and not encrypted:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"'{TLS_CLIENT_CERT.name}' requires TLS",
            hint=f"Leave out '{TLS_CLIENT_CERT.name}' or '{TLS_DISABLED.name}'.",
            span=reader.span(TLS_CLIENT_CERT),
        )
    expected_protocol = ("SASL_" if texts[HASH_FUNCTION.name] != "NONE" else "") + (
        "SSL" if encrypted else "PLAINTEXT"
    )
    if texts[HASH_FUNCTION.name] in TOKEN_MECHANISMS and not encrypted:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"{texts[HASH_FUNCTION.name]} requires TLS: anyone who reads a token can log in with it",
            hint=f"Leave out '{TLS_DISABLED.name}'.",
            span=reader.span(HASH_FUNCTION),
        )
    if protocol not in (None, expected_protocol):
        raise reader.bad(SECURITY_PROTOCOL, f"{expected_protocol}, as the other properties have it")
