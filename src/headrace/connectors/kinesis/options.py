"""The properties that Kinesis adds to the dialect: for stores and streams.

Source: dialect sections 6.1, 8 and 9.1. All values are hostile user input: only scheme, host and port of 'uris' are used, and only the
declared properties reach a client.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from headrace.connectors import addresses, aws
from headrace.connectors.aws import OWN_REGION, REGION
from headrace.connectors.tls import TLS_CA, TLS_DISABLED
from headrace.core.errors import UserError
from headrace.core.names import EntityPath
from headrace.core.properties import (
    COUNT,
    LINE,
    PropertyReader,
    PropertySpec,
    PropertyType,
    Scope,
    Specs,
    matching,
    number,
)
from headrace.core.sqlstate import SqlState

_STREAM = re.compile(r"[A-Za-z0-9_.-]{1,128}\Z")
_REGION_OF = re.compile(r"(?:^|\.)(?:data-|control-)?kinesis(?:-fips)?\.([a-z]{2,}(?:-[a-z]+)+-\d+)\.")
_ACCOUNT = matching(r"\d{12}", "twelve digits")
_FORM = "https://kinesis.us-east-1.amazonaws.com"


def _uris(text: str) -> str:
    form = f"{_FORM}, or http(s)://host:port"
    user = "'kinesis.access_key_id' and 'kinesis.secret_access_key'"
    url = addresses.read(text, form, instead_of_user=user)
    if url.path:
        raise ValueError(f"expected {form}, found {text!r}")
    return url.origin


def _account(text: str) -> str:
    # Terraform's provider writes quotes inside the quotes.
    return _ACCOUNT.read(text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text)


URIS = PropertySpec(
    "uris",
    PropertyType("", _uris),
    Scope.STORE,
    f"`{_FORM}`, or the address of a service with the same protocol; only scheme, host and port are accepted. `http` "
    "requires `tls.disabled`",
    default="needed",
)
IDENTITY = aws.identity("kinesis")
ACCESS_KEY_ID, SECRET_ACCESS_KEY, ROLE = IDENTITY.access_key_id, IDENTITY.secret_access_key, IDENTITY.role
ACCOUNT = PropertySpec(
    "kinesis.account.id",
    PropertyType(_ACCOUNT.expected, _account),
    Scope.STORE,
    "the AWS account of the streams, if it differs from the key's",
    default="the key's",
)
STREAM = PropertySpec("topic", LINE, Scope.RELATION | Scope.SINK, "the stream", default="the relation's name")
SHARDS = PropertySpec(
    "kinesis.shards",
    COUNT,
    Scope.ENTITY | Scope.RELATION | Scope.SINK,
    "of a created stream; for an existing stream, the number must match",
    default="1; in CREATE … AS the leftmost source's",
    synonyms=("topic.shards",),
)
LAYOUT = {"shards": SHARDS}
STORE: Specs = (URIS, TLS_DISABLED, TLS_CA, ACCESS_KEY_ID, SECRET_ACCESS_KEY, ROLE, ACCOUNT, REGION)
RECORD_SHARD = PropertySpec(
    "partition",
    number(0, 10**12 - 1, "the number of a shard"),
    Scope.RECORD,
    "the shard that the record is written to",
    default="the shard that the key selects",
)
PROPERTIES: Specs = (*STORE, STREAM, SHARDS, RECORD_SHARD)


def read_store(reader: PropertyReader) -> dict[str, str]:
    """Return checked, canonical properties of a store; raises UserError 3D008 / 3D021 at the property."""
    uris, plain = reader.require(URIS), reader.take(TLS_DISABLED) is True
    if uris.startswith("http:") is not plain:
        raise reader.bad(
            URIS, f"{'http' if plain else 'https'}://…, as '{TLS_DISABLED.name}' is {str(plain).upper()}"
        )
    texts = {URIS.name: uris, TLS_DISABLED.name: str(plain).upper()}
    texts |= {spec.name: value for spec in (ROLE, ACCOUNT, REGION, TLS_CA) if (value := reader.take(spec))}
    _check_region(reader, texts)
    key, secret = reader.take(ACCESS_KEY_ID), reader.take(SECRET_ACCESS_KEY)
    if key is not None and secret is not None:
        return texts | {ACCESS_KEY_ID.name: key, SECRET_ACCESS_KEY.name: secret}
    if key is not None or secret is not None or ROLE.name not in texts:
        reader.require(
            ACCESS_KEY_ID,
            hint=f"Specify '{ACCESS_KEY_ID.name}' and '{SECRET_ACCESS_KEY.name}', or '{ROLE.name}'.",
        )
        reader.require(SECRET_ACCESS_KEY)
    if not is_aws(texts):
        # Requests that the server's own identity signs are sent to AWS only.
        raise reader.bad(ROLE, f"with '{ACCESS_KEY_ID.name}' at an address that is not AWS's own")
    return texts


def record_options(reader: PropertyReader) -> dict[str, str]:
    """Return the shard of one record under its own name."""
    shard = reader.take(RECORD_SHARD)
    return {} if shard is None else {RECORD_SHARD.name: str(shard)}


def is_aws(store: Mapping[str, str]) -> bool:
    """True if the store's address is AWS's own."""
    return aws.is_aws(_host(store))


def region(store: Mapping[str, str]) -> str:
    """Return the region of a store's address, or of its property."""
    named = _REGION_OF.search(_host(store))
    return named[1] if named else store.get(REGION.name, OWN_REGION)


def stream_of(path: EntityPath) -> str:
    """Return the stream that a path names; raises UserError 42601, 3D008."""
    if len(path) != 1:
        raise UserError(
            SqlState.SYNTAX_ERROR,
            f"a stream's name has one part, found {len(path)}",
            hint='Put a name that contains dots in double quotes: "a.b".',
        )
    if not _STREAM.match(path[0]):
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"{path[0]!r} is not a legal stream name",
            hint="Use up to 128 letters, digits, '.', '_' and '-'.",
        )
    return path[0]


def stream_path(reader: PropertyReader, relation: str) -> EntityPath:
    """Return the entity that a relation is over."""
    return (reader.take(STREAM) or relation,)


def _host(store: Mapping[str, str]) -> str:
    return urlsplit(store[URIS.name]).hostname or ""


def _check_region(reader: PropertyReader, texts: Mapping[str, str]) -> None:
    named = _REGION_OF.search(_host(texts))
    given_region = texts.get(REGION.name)
    if named is not None and given_region not in (None, named[1]):
        raise reader.bad(REGION, f"{named[1]}, as in '{URIS.name}'")
    if named is None and given_region is None and is_aws(texts):
        reader.require(REGION, hint=f"Or name it in '{URIS.name}', as {_FORM} does.")
