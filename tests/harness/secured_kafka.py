"""A broker with a second listener that asks for TLS and a user."""

from __future__ import annotations

import socket
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from headrace.runtime.kafka_broker import KafkaBroker
from tests.harness.authority import Authority

USER, PASSWORD = "alice", 'pa"ss\\word;= #'
_JAAS_PASSWORD = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')


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
