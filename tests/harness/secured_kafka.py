"""A broker with a second listener that asks for TLS and a user, and an authority of its own that vouches for it."""

from __future__ import annotations

import datetime
import socket
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from headrace.runtime.kafka_broker import KafkaBroker

USER, PASSWORD = "alice", 'pa"ss\\word;= #'
_JAAS_PASSWORD = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')


class Authority:
    """Signs certificates; `pem` is what its friends trust."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an authority for tests")])
        basic = x509.BasicConstraints(ca=True, path_length=0)
        self._certificate = self._signed(self._name, self._key.public_key(), basic)

    @property
    def pem(self) -> str:
        """Its own certificate."""
        return self._certificate.public_bytes(serialization.Encoding.PEM).decode()

    def key_and_certificate(self, host: str) -> bytes:
        """A new private key and a certificate for `host`, both PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        certificate = self._signed(name, key.public_key(), x509.SubjectAlternativeName([x509.DNSName(host)]))
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


class SecuredBroker(KafkaBroker):
    """`bootstrap` is open; `secured` asks for TLS and for `USER` with `PASSWORD`, by any mechanism. Its name is `host`.

    As Kafka is when nobody changes that, it makes a topic that a client asks for.
    """

    def __init__(self, data_dir: Path, authority: Authority, *, host: str = "localhost") -> None:
        super().__init__(data_dir)
        self._authority = authority
        self._host = host
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._secured_port = int(probe.getsockname()[1])

    @property
    def secured(self) -> str:
        """The address of the listener that asks for a user."""
        return f"localhost:{self._secured_port}"

    def start(self) -> SecuredBroker:
        super().start()
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            user = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
            admin.alter_user_scram_credentials([user])[USER].result()
        return self

    def _configure(self) -> None:
        super()._configure()
        keys = self._folder / "broker.pem"
        keys.write_bytes(self._authority.key_and_certificate(self._host))
        login = "org.apache.kafka.common.security"
        added = {
            "auto.create.topics.enable": "true",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURED:SASL_SSL",
            "listener.name.secured.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.secured.ssl.keystore.type": "PEM",
            "listener.name.secured.ssl.keystore.location": str(keys),
            "listener.name.secured.plain.sasl.jaas.config": f"{login}.plain.PlainLoginModule required "
            f'user_{USER}="{_JAAS_PASSWORD}";',
            "listener.name.secured.scram-sha-256.sasl.jaas.config": f"{login}.scram.ScramLoginModule required;",
            "listener.name.secured.scram-sha-512.sasl.jaas.config": f"{login}.scram.ScramLoginModule required;",
        }
        file = self._folder / "server.properties"
        lines = []
        for line in file.read_text().splitlines():
            name, _, value = line.partition("=")
            if name in ("listeners", "advertised.listeners"):
                at = "127.0.0.1" if name == "listeners" else "localhost"
                value += f",SECURED://{at}:{self._secured_port}"
            lines.append(f"{name}={value}")
        # A properties file has an escape of its own; the last of two lines counts.
        lines += [f"{name}={value}".replace("\\", "\\\\") for name, value in added.items()]
        file.write_text("\n".join(lines) + "\n")
