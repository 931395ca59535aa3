"""The properties of schema registries. Source: dialect section 7.1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from headrace.connectors.tls import CLIENT_TLS, TLS, TLS_DISABLED, client_tls_properties, tls_properties
from headrace.core.errors import Span, UserError
from headrace.core.properties import (
    LINE,
    LOGIN,
    TEXT,
    PropertyReader,
    PropertySpec,
    PropertyType,
    Scope,
    Specs,
)
from headrace.core.sqlstate import SqlState
from headrace.core.wording import with_article


def _urls(text: str) -> str:
    urls = [part.strip().rstrip("/") for part in text.split(",") if part.strip()]
    if not urls:
        raise ValueError("expected at least one URL")
    for url in urls:
        try:
            parts = urlsplit(url)
            usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            usable = False
        if not usable or parts.query or parts.fragment or not url.isascii() or not url.isprintable():
            raise ValueError(f"expected http(s)://host:port, found {url.rpartition('@')[2]!r}")
        if parts.username is not None:
            raise ValueError("expected a URL without a user: use the registry's properties for the user")
    return ",".join(urls)


TYPE = PropertySpec("type", TEXT, Scope.REGISTRY, "`CONFLUENT` or `CONFLUENT_CLOUD`", default="needed")
REGION = PropertySpec(
    "access_region", TEXT, Scope.REGISTRY, "accepted and ignored", synonyms=("access.region",)
)
DESCRIPTION = PropertySpec("description", TEXT, Scope.REGISTRY, "accepted and ignored")
URIS = PropertySpec(
    "uris",
    PropertyType("", _urls),
    Scope.REGISTRY,
    "the addresses, `http://host:port` or `https://…`, with a path if necessary, separated by commas: the first that answers is used",
    default="needed",
    synonyms=("url",),
)
_BASIC = (
    PropertySpec(
        "confluent.username",
        LOGIN,
        Scope.REGISTRY,
        "CONFLUENT: the user for basic authentication",
        default="none",
    ),
    PropertySpec("confluent.password", LINE, Scope.REGISTRY, "CONFLUENT: the user's password", secret=True),
)
_TOKEN = PropertySpec(
    "confluent.token",
    LINE,
    Scope.REGISTRY,
    "CONFLUENT: a bearer token, instead of a user",
    default="none",
    secret=True,
)
_KEY = (
    PropertySpec(
        "confluent_cloud.key", LOGIN, Scope.REGISTRY, "CONFLUENT_CLOUD: the API key", default="needed"
    ),
    PropertySpec(
        "confluent_cloud.secret",
        LINE,
        Scope.REGISTRY,
        "CONFLUENT_CLOUD: the secret of the API key",
        default="needed",
        secret=True,
    ),
)
COMMON: Specs = (TYPE, URIS, REGION, DESCRIPTION)
PROPERTIES: Specs = (TYPE, URIS, *_BASIC, _TOKEN, *_KEY, *TLS, *CLIENT_TLS, REGION, DESCRIPTION)


@dataclass(frozen=True)
class RegistryType:
    """`type` is the catalog's name, `label` the name in texts; `credentials` are a user and a password, `token` replaces both."""

    type: str
    label: str
    credentials: tuple[PropertySpec[str], PropertySpec[str]]
    token: PropertySpec[str] | None = None
    needs_credentials: bool = False

    @property
    def properties(self) -> Specs:
        """All properties of a registry."""
        token = () if self.token is None else (self.token,)
        return (*COMMON, *self.credentials, *token, *TLS, *CLIENT_TLS)

    def read(self, reader: PropertyReader) -> dict[str, str]:
        """Return checked, canonical text; raises UserError 3D008 (bad) or 3D021 (missing) at the property."""
        for spec in (TYPE, REGION, DESCRIPTION):
            reader.take(spec)
        uris = reader.require(URIS)
        texts = {spec.name: reader.take(spec) for spec in self.credentials}
        if self.token is not None:
            texts[self.token.name] = reader.take(self.token)
        given = {name: text for name, text in texts.items() if text}
        whole = [{spec.name for spec in self.credentials}]
        whole += [] if self.needs_credentials else [set()]
        whole += [] if self.token is None else [{self.token.name}]
        if set(given) not in whole:
            raise UserError(
                SqlState.INVALID_PARAMETER,
                with_article(
                    f"{self.label} registry requires {' and '.join(spec.name for spec in self.credentials)} together"
                )
                + (f", or {self.token.name}" if self.token else ""),
                span=next(
                    (span for spec in self.properties if spec.name in given and (span := reader.span(spec))),
                    None,
                )
                or reader.span(TYPE),
            )
        plain = uris.startswith("http:")
        if any(url.startswith("http:") != plain for url in uris.split(",")):
            raise reader.bad(URIS, "all of http or all of https")
        tls = tls_properties(reader, disabled=plain) | client_tls_properties(reader)
        if (tls[TLS_DISABLED.name] == "TRUE") != plain:
            raise reader.bad(TLS_DISABLED, "the value that matches the scheme of 'uris'")
        return {URIS.name: uris, **given, **{name: tls[name] for name in tls if name != TLS_DISABLED.name}}


CONFLUENT = RegistryType("confluent", "Confluent", (_BASIC[0], _BASIC[1]), _TOKEN)
CONFLUENT_CLOUD = RegistryType(
    "confluent_cloud", "ConfluentCloud", (_KEY[0], _KEY[1]), needs_credentials=True
)
TYPES = {kind.type: kind for kind in (CONFLUENT, CONFLUENT_CLOUD)}


def registry_type(name: str, *, span: Span | None = None) -> RegistryType:
    """Return a type by its name, in any case. Raises UserError 3D008 for an unknown one."""
    registry = TYPES.get(name.lower())
    if registry is None:
        names = ", ".join(sorted(TYPES)).upper()
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"unknown type of schema registry {name!r}",
            hint=f"Use one of {names}. Apicurio, Karapace and Redpanda speak the protocol of CONFLUENT.",
            span=span,
        )
    return registry


_CALLED = {
    _TOKEN.name: "token",
    **{
        spec.name: name
        for pair in (_BASIC, _KEY)
        for spec, name in zip(pair, ("username", "password"), strict=True)
    },
}


def connection(properties: Mapping[str, str]) -> dict[str, str]:
    """Return a client's connection properties of any type: `uris`, `tls.*`, and `auth` with its credentials.

    It is `none`; `basic`, which takes `username` and `password`; or `token`, which takes `token`.
    """
    settings = {
        _CALLED.get(name, name): text
        for name, text in properties.items()
        if name == URIS.name or name in _CALLED or name.startswith("tls.")
    }
    return settings | {
        "auth": "token" if "token" in settings else "basic" if "username" in settings else "none"
    }


def connection_secrets(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return the secret values of a `connection`."""
    names = dict.fromkeys(_CALLED.get(spec.name, spec.name) for spec in PROPERTIES if spec.secret)
    return tuple(text for name in names if (text := settings.get(name)))
