"""TLS of a store, which its type may offer: the properties, and how they are read. Source: dialect section 6.1."""

from __future__ import annotations

from headrace.core.properties import BOOLEAN, PropertyReader, PropertySpec, PropertyType, Scope, Specs


def _pem(text: str) -> str:
    if not text.lstrip().startswith("-----BEGIN CERTIFICATE-----"):
        raise ValueError("expected the PEM text of a certificate")
    return text


TLS_DISABLED = PropertySpec(
    "tls.disabled", BOOLEAN, Scope.STORE, "TRUE for servers without TLS", default="FALSE"
)
TLS_VERIFY = PropertySpec(
    "tls.verify_server_hostname",
    BOOLEAN,
    Scope.STORE,
    "whether a server's name must be its certificate's",
    default="TRUE",
)
TLS_CA = PropertySpec(
    "tls.ca_cert_file",
    PropertyType("", _pem),
    Scope.STORE,
    "the authority to trust, as PEM **text** (`-----BEGIN CERTIFICATE-----…`); uploaded files are not taken yet",
    default="the system's",
)
TLS: Specs = (TLS_DISABLED, TLS_VERIFY, TLS_CA)


def tls_properties(reader: PropertyReader, *, disabled: bool = False) -> dict[str, str]:
    """What a store says of TLS, as canonical text; `disabled` where it does not say. Raises UserError 3D008."""
    said = reader.take(TLS_DISABLED)
    verify = reader.take(TLS_VERIFY)
    authority = reader.take(TLS_CA)
    texts = {
        TLS_DISABLED.name: str(disabled if said is None else said).upper(),
        TLS_VERIFY.name: str(verify is not False).upper(),
    }
    return texts if authority is None else texts | {TLS_CA.name: authority}
