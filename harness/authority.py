"""An authority of the tests' own, which vouches for servers."""

from __future__ import annotations

import datetime
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """Certificate authority; clients trust its `pem`."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an authority for tests")])
        basic = x509.BasicConstraints(ca=True, path_length=0)
        self._certificate = self._signed(self._name, self._key.public_key(), basic)

    @property
    def pem(self) -> str:
        """Its own certificate."""
        return self._certificate.public_bytes(serialization.Encoding.PEM).decode()

    def key_and_certificate(self, host: str | ipaddress.IPv4Address) -> bytes:
        """A new private key and a certificate for `host`, both PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, str(host))])
        alternative = x509.DNSName(host) if isinstance(host, str) else x509.IPAddress(host)
        certificate = self._signed(name, key.public_key(), x509.SubjectAlternativeName([alternative]))
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return private + certificate.public_bytes(serialization.Encoding.PEM)

    def _signed(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, extension: x509.ExtensionType
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(extension, critical=True)
            .sign(self._key, hashes.SHA256())
        )
