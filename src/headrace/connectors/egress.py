"""Allowed addresses: addresses in properties of stores and schema registries come from users, and are hostile.

The operator sets `HEADRACE_EGRESS_ALLOWED`. Independent of it, addresses of cloud metadata services, which serve secrets, are always
refused, and so are addresses that do not belong to one machine: link-local, multicast, unspecified.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from headrace.connectors.hosts import resolve
from headrace.core.errors import ExternalError, UserError
from headrace.core.settings import EGRESS_DEFAULT
from headrace.core.sqlstate import SqlState

Address = IPv4Address | IPv6Address
_NEVER = tuple(
    ip_network(network)
    for network in (
        "0.0.0.0/8",  # "this machine", by another name than loopback
        "169.254.0.0/16",  # link-local; 169.254.169.254 are the credentials of most clouds' machines
        "100.100.100.200/32",  # Alibaba Cloud's
        "168.63.129.16/32",  # Azure's host
        "192.0.0.192/32",  # Oracle's
        "224.0.0.0/4",
        "240.0.0.0/4",
        "::/128",
        "fe80::/10",
        "fd00:ec2::254/128",  # AWS
        "fd20:ce::254/128",  # Google
        "ff00::/8",
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")


@dataclass(frozen=True)
class Egress:
    """Allow-list of the operator: `loopback`, `private`, `public`, networks, and names of hosts, `*.` standing for subdomains."""

    allowed: tuple[str, ...] = EGRESS_DEFAULT

    def addresses(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host, in the order in which to try them.

        Callers must connect to these addresses: a second look-up may return others. Raises UserError 3D008 if one of
        them is refused, ExternalError 57015 if the host is not known.
        """
        addresses = resolve(host, port)
        if not all(self._allows(host, ip_address(address)) for address in addresses):
            raise UserError(
                SqlState.INVALID_PARAMETER,
                f"this server does not connect to {host!r}",
                hint="The server's operator allows addresses with HEADRACE_EGRESS_ALLOWED; "
                "link-local addresses are never allowed.",
            )
        return addresses

    def check(self, texts: Iterable[str]) -> None:
        """Raise UserError 3D008 if a host in one of these properties is refused. Unknown hosts pass, since they have no address.

        A text is `host:port` or a URL, or several with commas between them.
        """
        for text in texts:
            for host, port in _hosts(text):
                try:
                    self.addresses(host, port)
                except ExternalError:
                    continue

    def _allows(self, host: str, address: Address) -> bool:
        meant = _embedded(address)
        if any(address in network or meant in network for network in _NEVER):
            return False
        name = host.lower().rstrip(".")
        return any(_fits(entry, name, meant) for entry in self.allowed)


def _fits(entry: str, host: str, address: Address) -> bool:
    match entry:
        case "loopback":
            return address.is_loopback
        case "private":
            return not address.is_global and not address.is_loopback
        case "public":
            return address.is_global
    if entry.startswith("*."):
        return host.endswith(entry[1:])
    try:
        network: IPv4Network | IPv6Network = ip_network(entry)
    except ValueError:
        return host == entry
    return address in network


def _embedded(address: Address) -> Address:
    """Return the IPv4 address embedded in an IPv6 one, else the address."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else address)


def _hosts(text: str) -> list[tuple[str, int]]:
    hosts = []
    for part in text.split(","):
        parts = urlsplit(part.strip() if "://" in part else f"//{part.strip()}")
        if parts.hostname:
            hosts.append((parts.hostname, parts.port or 0))
    return hosts
