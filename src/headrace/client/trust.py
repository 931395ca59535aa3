"""Certificates that the client trusts."""

from __future__ import annotations

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
