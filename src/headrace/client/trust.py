"""Certificates that the client trusts, and servers on this machine."""

from __future__ import annotations

import ipaddress
import os
import ssl
from pathlib import Path

import httpx


def trusted() -> ssl.SSLContext:
    """Return a TLS context that trusts the usual authorities and the authorities in the file that `SSL_CERT_FILE` names."""
    context = httpx.create_ssl_context()
    file = os.environ.get("SSL_CERT_FILE")
    if file and Path(file).is_file():
        context.load_verify_locations(file)
    return context


def is_loopback(host: str) -> bool:
    """True if a host is this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
