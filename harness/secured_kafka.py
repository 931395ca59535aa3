"""A broker with additional listeners that require TLS and a user or a certificate."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from harness.authority import Authority
from harness.issuer import AUDIENCE, Issuer
from harness.issuer import CLIENT as SERVICE
from harness.patience import PATIENCE_S, until
from headrace.runtime.kafka_broker import KafkaBroker
from headrace.runtime.ports import free_port

USER, PASSWORD = "alice", 'pa"ss\\word;= #'
CLIENT = "app"
"""Whose certificate may do all."""
NOBODY = "bob"
"""Another user, with the same password and no rights but those that a test gives him."""
_JAAS_PASSWORD = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')


class SecuredBroker(KafkaBroker):
    """`bootstrap` is open; `secured` requires TLS and `USER` with `PASSWORD`, by any mechanism; `mutual` requires a certificate,
    and `tokened` a token of `issuer`, if there is one.

    Its name is `host`. Rights are asked for: `NOBODY` has none, all others have all. As Kafka is when nobody changes that, it makes a
    topic that a client asks for.
    """

    def __init__(
        self, data_dir: Path, authority: Authority, *, host: str = "localhost", issuer: Issuer | None = None
    ) -> None:
        super().__init__(data_dir)
        self._authority = authority
        self._host = host
        self._issuer = issuer
        listeners = ["SECURED", "MUTUAL", *(["TOKENED"] if issuer else [])]
        self._ports = {listener: free_port() for listener in listeners}
        if issuer:
            self.java_options = [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={issuer.keys.as_uri()}"]

    @property
    def secured(self) -> str:
        """Return the address of the listener that requires a user."""
        return f"localhost:{self._ports['SECURED']}"

    @property
    def mutual(self) -> str:
        """Return the address of the listener that requires a certificate of the authority."""
        return f"localhost:{self._ports['MUTUAL']}"

    @property
    def tokened(self) -> str:
        """Return the address of the listener that requires a token of the issuer."""
        return f"localhost:{self._ports['TOKENED']}"

    def allow(self, user: str, resource: ResourceType, name: str, *operations: AclOperation) -> None:
        """Grant rights to a user."""
        principal, anyhow = f"User:{user}", ResourcePatternType.LITERAL
        rights = [
            AclBinding(resource, name, anyhow, principal, "*", operation, AclPermissionType.ALLOW)
            for operation in operations
        ]
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for done in admin.create_acls(rights).values():
            done.result(PATIENCE_S)
        every = AclBindingFilter(
            resource, name, anyhow, principal, "*", AclOperation.ANY, AclPermissionType.ALLOW
        )
        # The broker follows its controller, which has answered.
        until(
            lambda: set(rights) <= set(admin.describe_acls(every).result(PATIENCE_S)), f"the rights of {user}"
        )

    def start(self) -> SecuredBroker:
        super().start()
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            user = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
            admin.alter_user_scram_credentials([user])[USER].result()
        for name in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            until(lambda name=name: self._signs_in(name), f"the broker to know {USER} by {name}")
        return self

    def _signs_in(self, mechanism: str) -> bool:
        admin = AdminClient(
            {
                "bootstrap.servers": self.secured,
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": mechanism,
                "sasl.username": USER,
                "sasl.password": PASSWORD,
                "ssl.ca.pem": self._authority.pem,
                "ssl.endpoint.identification.algorithm": "none",
                "log_level": 0,
            }
        )
        try:
            return bool(admin.list_topics(timeout=5).brokers)
        except KafkaException:
            return False

    def _configure(self) -> None:
        super()._configure()
        keys = self._folder / "broker.pem"
        keys.write_bytes(self._authority.key_and_certificate(self._host))
        trusted = self._folder / "trusted.pem"
        trusted.write_text(self._authority.pem)
        login = "org.apache.kafka.common.security"
        added = {
            "auto.create.topics.enable": "true",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURED:SASL_SSL,MUTUAL:SSL,TOKENED:SASL_SSL",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:ANONYMOUS;User:{USER};User:CN={CLIENT};User:{SERVICE}",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(keys),
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.mutual.ssl.truststore.type": "PEM",
            "listener.name.mutual.ssl.truststore.location": str(trusted),
            "listener.name.secured.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.secured.plain.sasl.jaas.config": f"{login}.plain.PlainLoginModule required "
            f'user_{USER}="{_JAAS_PASSWORD}" user_{NOBODY}="{_JAAS_PASSWORD}";',
            "listener.name.secured.scram-sha-256.sasl.jaas.config": f"{login}.scram.ScramLoginModule required;",
            "listener.name.secured.scram-sha-512.sasl.jaas.config": f"{login}.scram.ScramLoginModule required;",
        }
        if self._issuer is not None:
            oauth = "org.apache.kafka.common.security.oauthbearer"
            added |= {
                "listener.name.tokened.sasl.enabled.mechanisms": "OAUTHBEARER",
                "listener.name.tokened.oauthbearer.sasl.jaas.config": f"{oauth}.OAuthBearerLoginModule required;",
                "listener.name.tokened.oauthbearer.sasl.server.callback.handler.class": f"{oauth}.OAuthBearerValidatorCallbackHandler",
                # A connection ends with its token, unless its client logs in again.
                "listener.name.tokened.oauthbearer.connections.max.reauth.ms": "3600000",
                "sasl.oauthbearer.jwks.endpoint.url": self._issuer.keys.as_uri(),
                "sasl.oauthbearer.expected.audience": AUDIENCE,
                "sasl.oauthbearer.expected.issuer": self._issuer.url,
            }
        file = self._folder / "server.properties"
        lines = []
        for line in file.read_text().splitlines():
            name, _, value = line.partition("=")
            if name in ("listeners", "advertised.listeners"):
                at = "127.0.0.1" if name == "listeners" else "localhost"
                value += "".join(f",{listener}://{at}:{port}" for listener, port in self._ports.items())
            lines.append(f"{name}={value}")
        # A properties file has an escape of its own; the last of two lines counts.
        lines += [f"{name}={value}".replace("\\", "\\\\") for name, value in added.items()]
        file.write_text("\n".join(lines) + "\n")
