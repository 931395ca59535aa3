"""TLS of a store, which its type may offer: the properties, and how they are read. Source: dialect section 6.1."""

from __future__ import annotations

from functools import cache
from tempfile import NamedTemporaryFile
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509 import load_pem_x509_certificates

from headrace.core.errors import UserError
from headrace.core.properties import BOOLEAN, PropertyReader, PropertySpec, PropertyType, Scope, Specs
from headrace.core.sqlstate import SqlState


def _pem(text: str) -> str:
    if not text.lstrip().startswith("-----BEGIN CERTIFICATE-----"):
        raise ValueError("expected the PEM text of a certificate")
    return text


def _certificates(text: str) -> str:
    try:
        certificates = load_pem_x509_certificates(text.encode())
    except ValueError:
        raise ValueError(
            "expected the PEM text of a certificate, optionally followed by its issuers' certificates"
        ) from None
    return "".join(certificate.public_bytes(Encoding.PEM).decode() for certificate in certificates)


def _private_key(text: str) -> str:
    # As PKCS 8, the one form that Java reads too.
    try:
        key = load_pem_private_key(text.encode(), None)
    except (TypeError, UnsupportedAlgorithm) as error:  # with a passphrase, or of a kind that is not known
        raise ValueError(str(error)) from None
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


TLS_DISABLED = PropertySpec(
    "tls.disabled", BOOLEAN, Scope.STORE, "TRUE for servers without TLS", default="FALSE"
)
TLS_VERIFY = PropertySpec(
    "tls.verify_server_hostname",
    BOOLEAN,
    Scope.STORE,
    "whether a server's name must match its certificate",
    default="TRUE",
)
TLS_CA = PropertySpec(
    "tls.ca_cert_file",
    PropertyType("", _pem),
    Scope.STORE,
    "the trusted authority, as PEM **text** (`-----BEGIN CERTIFICATE-----…`) or an [uploaded file](statements.md#reading-this-page)",
    default="the system's",
    file=True,
)
TLS: Specs = (TLS_DISABLED, TLS_VERIFY, TLS_CA)
TLS_CLIENT_CERT = PropertySpec(
    "tls.client.cert_file",
    PropertyType("", _certificates),
    Scope.STORE,
    "mutual TLS: the client's certificate with its chain, as PEM text or an uploaded file",
    file=True,
)
TLS_CLIENT_KEY = PropertySpec(
    "tls.client.key_file",
    PropertyType("the PEM text of a private key without a passphrase", _private_key),
    Scope.STORE,
    "mutual TLS: the client's private key without a passphrase, as PEM text or an uploaded file",
    secret=True,
    file=True,
)
CLIENT_TLS: Specs = (TLS_CLIENT_CERT, TLS_CLIENT_KEY)


def tls_properties(reader: PropertyReader, *, disabled: bool = False) -> dict[str, str]:
    """Return a store's TLS properties as canonical text; `disabled` is the default. Raises UserError 3D008."""
    given_setting = reader.take(TLS_DISABLED)
    verify = reader.take(TLS_VERIFY)
    authority = reader.take(TLS_CA)
    texts = {
        TLS_DISABLED.name: str(disabled if given_setting is None else given_setting).upper(),
        TLS_VERIFY.name: str(verify is not False).upper(),
    }
    return texts if authority is None else texts | {TLS_CA.name: authority}


def client_tls_properties(reader: PropertyReader) -> dict[str, str]:
    """Return the certificate and the key that a store shows to its servers, both or none. Raises UserError 3D008."""
    pair = {spec: reader.take(spec) for spec in (TLS_CLIENT_CERT, TLS_CLIENT_KEY)}
    texts = {spec.name: text for spec, text in pair.items() if text is not None}
    given = next((reader.span(spec) for spec, text in pair.items() if text is not None), None)
    if len(texts) == 1:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"{TLS_CLIENT_CERT.name} and {TLS_CLIENT_KEY.name} must be specified together",
            hint="Specify the other one too, or remove this one.",
            span=given,
        )
    if texts and not _belong_together(texts[TLS_CLIENT_CERT.name], texts[TLS_CLIENT_KEY.name]):
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"{TLS_CLIENT_KEY.name} is not the key of the first certificate of {TLS_CLIENT_CERT.name}",
            hint="Put the client's own certificate first, and its issuers' certificates after it.",
            span=given,
        )
    return texts


def _belong_together(certificates: str, key: str) -> bool:
    own = load_pem_x509_certificates(certificates.encode())[0]
    return own.public_key() == load_pem_private_key(key.encode(), None).public_key()


def authority_file(text: str) -> str:
    """Return the path of a file with an authority's PEM text. The file exists until this process ends: clients read it at every
    connection."""
    return str(_file(text).name)


@cache
def _file(text: str) -> Any:
    file = NamedTemporaryFile("w", prefix="headrace-authority-", suffix=".pem")  # noqa: SIM115 - see above
    file.write(text)
    file.flush()
    return file
