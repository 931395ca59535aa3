"""Addresses of stores. They are hostile user input: this module lists the accepted parts, and refuses all others."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

_BLANK = re.compile(r"[\x00-\x20\x7f]")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,252}[A-Za-z0-9])?\Z")
WEB = ("https", "http")


@dataclass(frozen=True)
class Url:
    """A scheme, a host without a final dot, an optional port, and a path without slashes at its ends."""

    scheme: str
    host: str
    port: int | None
    path: str

    @property
    def origin(self) -> str:
        """Scheme, host and port, as a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + (f":{self.port}" if self.port else "")

    @property
    def url(self) -> str:
        """The origin with the path."""
        return f"{self.origin}/{self.path}" if self.path else self.origin


@dataclass(frozen=True)
class Database:
    """Address of a database, and its name; `port` is None for the default port."""

    host: str
    port: int | None
    name: str


def read(text: str, form: str, *, schemes: Collection[str] = WEB, instead_of_user: str = "") -> Url:
    """Parse a URL without parts that a `Url` lacks.

    `form` is the expected form, `instead_of_user` the property that sets the user. Raises ValueError without any part of a user's name or
    password.
    """
    parts = split(text.strip(), form)
    if "@" in parts.netloc:
        raise ValueError("expected no user in it" + (f": use {instead_of_user}" if instead_of_user else ""))
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise ValueError(f"expected a port from 1 to 65535 in {form}, found {text!r}")
    host = (parts.hostname or "").rstrip(".")
    if parts.scheme not in schemes or parts.query or parts.fragment or not is_host(host):
        raise ValueError(f"expected {form}, found {text!r}")
    return Url(parts.scheme, host, port, parts.path.strip("/"))


def split(text: str, form: str) -> SplitResult:
    """Split a URL; raises ValueError for a malformed one, and for one with blanks, which urlsplit would drop."""
    try:
        if not _BLANK.search(text):
            return urlsplit(text)
    except ValueError:  # an IPv6 address without an end
        pass
    raise ValueError(f"expected {form}, found {text.rpartition('@')[2]!r}")


def read_database(
    text: str,
    form: str,
    *,
    schemes: Collection[str],
    instead_of_user: str,
    port: int | None = None,
    default: str | None = None,
) -> Database:
    """Parse a URL whose path is the name of a database, as `read` does; raises ValueError without a name if there is no `default`."""
    url = read(text, form, schemes=schemes, instead_of_user=instead_of_user)
    name = unquote(url.path) or default
    if not name or "/" in name or "\0" in name:
        raise ValueError(f"expected {form}, found {text!r}")
    return Database(url.host, url.port or port, name)


def is_host(host: str) -> bool:
    """True if a text is an address, or a name that a host may have."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return _NAME.match(host) is not None
    return True
