"""The properties of a Snowflake store and of its relations.

Source: dialect sections 6.1, 8 and 9.1. All values are hostile user input. Snowflake's client follows many of the server's requests, so
'uris' only accepts hosts of Snowflake's domains, and this machine for a stand-in (ADR 30).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from headrace.connectors import addresses
from headrace.connectors.table_columns import new_table
from headrace.connectors.tls import TLS_DISABLED
from headrace.core.errors import UserError
from headrace.core.names import EntityPath
from headrace.core.properties import LINE, PropertyReader, PropertySpec, PropertyType, Scope, Specs, choice
from headrace.core.sqlstate import SqlState

DOMAINS = (".snowflakecomputing.com", ".snowflakecomputing.cn")
_FORM = "https://account.snowflakecomputing.com"
_ACCOUNT = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,250}[A-Za-z0-9])?\Z")


@dataclass(frozen=True)
class Address:
    """Address of an account."""

    host: str
    port: int
    secure: bool

    @property
    def server(self) -> str:
        """The address for messages."""
        return self.host if self.port == 443 else f"{self.host}:{self.port}"


def address(uris: str) -> Address:
    """Parse a store's 'uris'; raises ValueError for anything but the address of an account."""
    text = uris.strip()
    parts = addresses.split(text if "://" in text else f"https://{text}", _FORM)
    try:
        port = parts.port
    except ValueError:
        raise ValueError(f"expected {_FORM}") from None
    host = parts.hostname or ""
    # Nothing of a user's name or password is repeated.
    if "@" in parts.netloc:
        raise ValueError("expected no user in it: use 'snowflake.username'")
    secure = parts.scheme == "https"
    strange = parts.query or parts.fragment or parts.path not in ("", "/")
    if secure and port in (None, 443) and host.endswith(DOMAINS) and _ACCOUNT.match(host) and not strange:
        return Address(host, 443, secure=True)
    if parts.scheme == "http" and port and _is_here(host) and not strange:
        return Address(host, port, secure=False)
    raise ValueError(f"expected {_FORM}, found {uris!r}")


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _uris(text: str) -> str:
    account = address(text)
    return f"{'https' if account.secure else 'http'}://{account.server}"


def _account(text: str) -> str:
    if not _ACCOUNT.match(text):
        raise ValueError(text)
    return text


def _pem(text: str) -> str:
    if not re.match(r"\s*-----BEGIN ([A-Z]+ )?PRIVATE KEY-----", text):
        raise ValueError("no private key")
    return text


URIS = PropertySpec(
    "uris",
    PropertyType("", _uris),
    Scope.STORE,
    f"the account's address, as `{_FORM}`; the only other accepted host is this machine, with `http://` and `tls.disabled`",
    default="needed",
)
ACCOUNT = PropertySpec(
    "snowflake.account_id",
    PropertyType("the identifier of an account", _account),
    Scope.STORE,
    "the account, as `org-name` or a locator",
    default="that of `uris`",
)
REGION = PropertySpec(
    "snowflake.cloud.region",
    LINE,
    Scope.STORE,
    "accepted and not needed: the account's address determines the region",
)
ROLE = PropertySpec("snowflake.role_name", LINE, Scope.STORE, "the role", default="the user's own")
WAREHOUSE = PropertySpec(
    "snowflake.warehouse_name",
    LINE,
    Scope.STORE,
    "the warehouse that runs the statements",
    default="the user's own",
)
USERNAME = PropertySpec("snowflake.username", LINE, Scope.STORE, "the user", default="needed")
KEY = PropertySpec(
    "snowflake.client.key_file",
    PropertyType("the PEM text of a private RSA key", _pem),
    Scope.STORE,
    "the user's private key, as PEM **text** or an uploaded file; a key, a password or a token is required",
    secret=True,
    file=True,
)
PASSPHRASE = PropertySpec(
    "snowflake.client.key_passphrase",
    LINE,
    Scope.STORE,
    "the passphrase of the key",
    default="none",
    secret=True,
)
PASSWORD = PropertySpec(
    "snowflake.password", LINE, Scope.STORE, "instead of a key: the user's password", secret=True
)
TOKEN = PropertySpec("snowflake.token", LINE, Scope.STORE, "instead of a key: a token", secret=True)
TOKEN_TYPE = PropertySpec(
    "snowflake.token.type",
    choice("programmatic", "oauth"),
    Scope.STORE,
    "`programmatic` for an access token that a user created in Snowflake, `oauth` for a token of an authorization server",
    default="programmatic",
)
_OVER = Scope.RELATION | Scope.SINK
DATABASE = PropertySpec("snowflake.db.name", LINE, _OVER, "the table's database", default="needed")
SCHEMA = PropertySpec("snowflake.schema.name", LINE, _OVER, "the table's schema", default="needed")
TABLE = PropertySpec("snowflake.table.name", LINE, _OVER, "the table", default="the relation's name")
NEW_TABLE = new_table("snowflake")
_TEXTS = (ACCOUNT, REGION, ROLE, WAREHOUSE, USERNAME)
PROPERTIES: Specs = (
    URIS,
    *_TEXTS,
    KEY,
    PASSPHRASE,
    PASSWORD,
    TOKEN,
    TOKEN_TYPE,
    TLS_DISABLED,
    DATABASE,
    SCHEMA,
    TABLE,
    *NEW_TABLE.specs,
)


def read_store(reader: PropertyReader) -> dict[str, str]:
    """Return checked, canonical properties of a store; raises UserError 3D008 / 3D021 at the property."""
    properties = {spec.name: reader.require(spec) for spec in (URIS, USERNAME)}
    plain = reader.take(TLS_DISABLED) or False
    if plain == properties[URIS.name].startswith("https:"):
        expected = (
            "FALSE or left out: an account is reached over TLS" if plain else "TRUE for 'uris' with http://"
        )
        raise reader.bad(TLS_DISABLED, expected)
    properties[TLS_DISABLED.name] = str(plain).upper()
    host = address(properties[URIS.name]).host
    account = next((host.removesuffix(domain) for domain in DOMAINS if host.endswith(domain)), "local")
    given = {spec.name: reader.take(spec) for spec in (ACCOUNT, REGION, ROLE, WAREHOUSE)}
    properties |= {name: text for name, text in given.items() if text is not None}
    properties.setdefault(ACCOUNT.name, account)
    return properties | _credentials(reader)


def _credentials(reader: PropertyReader) -> dict[str, str]:
    ways = (KEY, PASSWORD, TOKEN)
    credentials = {spec: text for spec in ways if (text := reader.take(spec)) is not None}
    passphrase, kind = reader.take(PASSPHRASE), reader.take(TOKEN_TYPE)
    if not credentials:
        reader.require(KEY, hint=f"Specify one of {', '.join(spec.name for spec in ways)}.")
    if len(credentials) > 1:
        second = list(credentials)[1]
        raise reader.bad(second, f"left out if '{next(iter(credentials)).name}' is specified")
    if kind is not None and TOKEN not in credentials:
        raise reader.bad(TOKEN_TYPE, f"left out without '{TOKEN.name}'")
    if passphrase is not None and KEY not in credentials:
        raise reader.bad(PASSPHRASE, f"left out without '{KEY.name}'")
    texts = {spec.name: text for spec, text in credentials.items()}
    if KEY in credentials:
        texts[KEY.name] = _decrypted(reader, credentials[KEY], passphrase)
    if TOKEN in credentials:
        texts[TOKEN_TYPE.name] = kind or "programmatic"
    return texts


def _decrypted(reader: PropertyReader, pem: str, passphrase: str | None) -> str:
    """Return the key without a passphrase, which is neither kept nor needed again: the catalog encrypts both."""
    try:
        key = load_pem_private_key(pem.encode(), passphrase.encode() if passphrase else None)
    except (TypeError, ValueError, UnsupportedAlgorithm):
        expected = f"the PEM text of a private RSA key, which '{PASSPHRASE.name}' decrypts if it is encrypted"
        raise reader.bad(KEY, expected) from None
    if not isinstance(key, RSAPrivateKey):
        raise reader.bad(KEY, "the PEM text of a private RSA key")
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def read_path(reader: PropertyReader, relation: str) -> EntityPath:
    """Return the table that a relation is over: ("database", "schema", "table"). Raises UserError 3D021."""
    database, schema = reader.require(DATABASE), reader.require(SCHEMA)
    return (database, schema, reader.take(TABLE) or relation)


def wrong_path(path: EntityPath, expected: str) -> UserError:
    """Return error 3D008 for an unexpected path."""
    return UserError(
        SqlState.INVALID_PARAMETER,
        f"expected {expected}, found {'.'.join(path) or 'nothing'}",
        hint="LIST ENTITIES shows databases, LIST ENTITIES IN database its schemas, IN database.schema the tables.",
    )
