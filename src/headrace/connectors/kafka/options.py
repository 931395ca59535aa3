"""The properties of a Kafka store, relation and entity, typed and checked.

Source: dialect sections 6.1, 8 and 9.1. All of it is user input and hostile: addresses are matched against one form, pass-through
client properties against allow-lists, and JAAS text is never taken from a user (`client.py` rebuilds it from these fields).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState

_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]([A-Za-z0-9_.-]{0,252}[A-Za-z0-9])?):([0-9]{1,5})\Z")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")
_MECHANISMS = {"PLAIN": "PLAIN", "SCRAM-SHA-256": "SHA256", "SCRAM-SHA-512": "SHA512"}

CONSUMER_PROPERTIES = frozenset(
    {
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "max.partition.fetch.bytes",
        "max.poll.records",
        "receive.buffer.bytes",
        "request.timeout.ms",
    }
)
PRODUCER_PROPERTIES = frozenset(
    {
        "batch.size",
        "compression.type",
        "delivery.timeout.ms",
        "linger.ms",
        "max.request.size",
        "request.timeout.ms",
    }
)


class KafkaStoreOptions(BaseModel):
    """A Kafka store's typed properties; aliases are the words of the dialect."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=False)

    uris: str = Field(description="Comma-separated host:port of the brokers.")
    hash_function: Literal["NONE", "PLAIN", "SHA256", "SHA512"] = Field(
        "NONE", alias="kafka.sasl.hash_function", description="SASL mechanism."
    )
    username: str | None = Field(None, alias="kafka.sasl.username", description="SASL user name.")
    password: SecretStr | None = Field(None, alias="kafka.sasl.password", description="SASL password.")
    tls_disabled: bool = Field(False, alias="tls.disabled", description="Connect without TLS.")
    verify_server_hostname: bool = Field(
        True,
        alias="tls.verify_server_hostname",
        description="Check the broker's name against its certificate.",
    )
    ca_cert: str | None = Field(
        None, alias="tls.ca_cert_file", description="PEM text of the authority to trust."
    )

    @field_validator("uris")
    @classmethod
    def _addresses(cls, value: str) -> str:
        addresses = [part.strip() for part in value.split(",") if part.strip()]
        if not addresses:
            raise ValueError("expected at least one host:port")
        for address in addresses:
            match = _ADDRESS.match(address)
            if not match or not 0 < int(match.group(3)) < 65536:
                raise ValueError(f"expected host:port, found {address!r}")
        return ",".join(addresses)

    @field_validator("hash_function", mode="before")
    @classmethod
    def _upper(cls, value: str) -> str:
        return _MECHANISMS.get(value.upper(), value.upper())

    @field_validator("ca_cert")
    @classmethod
    def _pem(cls, value: str | None) -> str | None:
        if value is not None and not value.lstrip().startswith("-----BEGIN CERTIFICATE-----"):
            raise ValueError("expected the PEM text of a certificate")
        return value

    @model_validator(mode="after")
    def _credentials(self) -> KafkaStoreOptions:
        if self.hash_function == "NONE":
            if self.username or self.password:
                raise ValueError(
                    "kafka.sasl.username and kafka.sasl.password need 'kafka.sasl.hash_function'"
                )
        elif not self.username or not self.password:
            raise ValueError(f"{self.hash_function} needs kafka.sasl.username and kafka.sasl.password")
        return self


def store_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Checked, canonical text properties; raises UserError 3D008 (bad) or 3D021 (missing) naming the property."""
    given = {_SYNONYMS.get(key, key): value for key, value in properties.items() if key not in _IGNORED}
    protocol = given.pop("security.protocol", None)
    if protocol is not None:
        given.setdefault("tls.disabled", "FALSE" if protocol.upper().endswith("SSL") else "TRUE")
    try:
        options = KafkaStoreOptions.model_validate(given)
    except ValidationError as error:
        raise _property_error(error) from None
    dumped = options.model_dump(by_alias=True, exclude_none=True)
    return {key: _text(value) for key, value in dumped.items()}


def public_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties with secrets as `****`."""
    return {key: "****" if key == "kafka.sasl.password" else value for key, value in properties.items()}


def allowed(properties: Mapping[str, str], prefix: str, names: frozenset[str]) -> dict[str, str]:
    """Pass-through client properties without their prefix; raises UserError 3D008 for one that is not allowed."""
    found: dict[str, str] = {}
    for key, value in properties.items():
        if not key.startswith(prefix):
            continue
        name = key.removeprefix(prefix)
        if name not in names:
            raise UserError(
                SqlState.INVALID_PARAMETER,
                f"the property {key!r} cannot be set",
                hint=f"These can: {', '.join(sorted(prefix + known for known in names))}.",
            )
        found[name] = value
    return found


def topic_name(entity: str) -> str:
    """`entity` when it is a legal topic name; raises UserError 3D008."""
    if not _TOPIC.match(entity) or entity in {".", ".."}:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"{entity!r} is not a legal topic name",
            hint="Use up to 249 letters, digits, '.', '_' and '-'.",
        )
    return entity


def topic_layout(options: Mapping[str, str]) -> tuple[int | None, int | None, dict[str, str]]:
    """(partitions, replicas, topic configs) from an entity's properties; raises UserError 3D008 for any other."""
    partitions = _count(options, ("kafka.partitions", "topic.partitions"))
    replicas = _count(options, ("kafka.replicas", "topic.replicas"))
    prefix = "kafka.topic."
    for key in options:
        if key not in _LAYOUT and not key.startswith(prefix):
            raise UserError(
                SqlState.INVALID_PARAMETER,
                f"a Kafka entity has no property {key!r}",
                hint=f"Known: {', '.join(_LAYOUT)}, {prefix}….",
            )
    configs = {key.removeprefix(prefix): value for key, value in options.items() if key.startswith(prefix)}
    return partitions, replicas, configs


def _count(options: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    for name in names:
        if name in options:
            text = options[name]
            if not text.isdigit() or not 0 < int(text) <= 10_000:
                raise UserError(
                    SqlState.INVALID_PARAMETER,
                    f"{name} must be a whole number from 1 to 10000, found {text!r}",
                )
            return int(text)
    return None


def _text(value: object) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return str(value)


def _property_error(error: ValidationError) -> UserError:
    # A name that is not known first: it is often the one that is missing, misspelt.
    first = min(
        error.errors(include_input=False, include_url=False),
        key=lambda item: item["type"] != "extra_forbidden",
    )
    name = ".".join(str(part) for part in first["loc"])
    known = ", ".join(
        sorted(str(field.alias or key) for key, field in KafkaStoreOptions.model_fields.items())
    )
    if first["type"] == "missing":
        return UserError(
            SqlState.MISSING_PARAMETER, f"a Kafka store needs the property {name!r}", hint=f"Known: {known}."
        )
    if first["type"] == "extra_forbidden":
        return UserError(
            SqlState.INVALID_PARAMETER, f"a Kafka store has no property {name!r}", hint=f"Known: {known}."
        )
    reason = str(first["msg"]).removeprefix("Value error, ")
    return UserError(SqlState.INVALID_PARAMETER, f"{name}: {reason}" if name else reason)


_LAYOUT = ("kafka.partitions", "kafka.replicas", "topic.partitions", "topic.replicas")
_SYNONYMS = {
    "sasl.mechanism": "kafka.sasl.hash_function",
    "sasl.username": "kafka.sasl.username",
    "sasl.password": "kafka.sasl.password",
}
_IGNORED = frozenset({"type", "access_region", "access.region", "description"})
