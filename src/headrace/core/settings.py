"""All settings of the server, typed, each with a sentence; the environment variable is `HEADRACE_<NAME>`.

Limits live here too, so that every queue, page and message has a named maximum.
"""

from __future__ import annotations

import re
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from platformdirs import user_data_path
from pydantic import BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState

EGRESS_DEFAULT = ("loopback", "private", "public")
VIEWS_SCHEMES = ("clickhouse", "clickhouse+http")
"""The second is without TLS."""
_DESTINATION = re.compile(r"(\*\.)?[a-z0-9]([a-z0-9._-]*[a-z0-9])?")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?")


def _hosts(value: object) -> object:
    if not isinstance(value, str):
        return value
    names = [name.strip().lower() for name in value.split(",") if name.strip()]
    for name in names:
        if not _HOST.fullmatch(name):
            raise ValueError(
                f"expected names such as data.example.com or data.example.com:8443, found {name!r}"
            )
    return tuple(names)


def _egress(value: object) -> object:
    if not isinstance(value, str):
        return value
    entries = tuple(entry.strip().lower() for entry in value.split(",") if entry.strip())
    for entry in entries:
        try:
            ip_network(entry)
        except ValueError:
            if not _DESTINATION.fullmatch(entry):
                message = "expected loopback, private, public, a network such as 10.1.0.0/16, or a name such as *.example.com"
                raise ValueError(f"{message}, found {entry!r}") from None
    return entries


def _catalog_url(value: object) -> object:
    if isinstance(value, str) and value and urlsplit(value).scheme not in ("postgresql", "postgres"):
        raise ValueError("expected an address such as postgresql://user:password@host/database")
    return value or None


def _views_url(value: object) -> object:
    if not isinstance(value, str) or not value:
        return None
    parts = urlsplit(value)
    if parts.password is not None:
        raise ValueError(
            "expected no password in it: give HEADRACE_VIEWS_PASSWORD, or HEADRACE_VIEWS_PASSWORD_FILE"
        )
    named = parts.username and parts.hostname and len(parts.path.strip("/")) > 0
    if parts.scheme not in VIEWS_SCHEMES or not named or parts.query or parts.fragment:
        raise ValueError("expected an address such as clickhouse://user@host:8443/database")
    return value


def _public_url(value: object) -> object:
    if not isinstance(value, str) or not value:
        return None
    parts = urlsplit(value.lower())
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ValueError("expected a scheme and a host such as https://data.example.com")
    return f"{parts.scheme}://{parts.netloc}"


def _issuer(value: object) -> object:
    if not isinstance(value, str) or not value:
        return None
    parts = urlsplit(value)
    loopback = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if (
        not parts.hostname
        or parts.query
        or not (parts.scheme == "https" or (parts.scheme == "http" and loopback))
    ):
        raise ValueError("expected an https address such as https://login.example.com")
    return value


def _roles(value: object) -> object:
    if not isinstance(value, str):
        return value
    pairs = [entry.rpartition("=") for entry in value.split(",") if entry.strip()]
    if not all(group.strip() and role.strip() for group, _, role in pairs):
        raise ValueError("expected group=role pairs, separated by commas")
    return tuple((group.strip(), role.strip()) for group, _, role in pairs)


class Settings(BaseSettings):
    """Settings of a server process. Flags of `headrace up` override the environment."""

    model_config = SettingsConfigDict(env_prefix="HEADRACE_", frozen=True)

    data_dir: Path = Field(
        default_factory=lambda: user_data_path("headrace"),
        description="Where catalog, checkpoints, views and logs are kept.",
    )
    adopt_data_dir: bool = Field(
        False,
        description="Start a catalog whose data directory was lost with a new one. Queries then begin without their checkpoints, and views "
        "without their rows. For one start.",
    )
    aside_days: int = Field(
        7,
        ge=0,
        description="Days for which checkpoints and rows of views that the catalog does not know at a start are set aside, before they are "
        "deleted.",
    )
    catalog_url: Annotated[SecretStr | None, BeforeValidator(_catalog_url)] = Field(
        None,
        description="A PostgreSQL database that holds the catalog, such as `postgresql://headrace:secret@db.example.com/headrace`, "
        "instead of a file of the data directory.",
    )
    catalog_key: SecretStr | None = Field(
        None,
        description="The key that seals what is secret in the catalog, 32 bytes in base64, instead of the file `catalog.key` of the data "
        "directory. Of several, separated by commas, the first seals and all open.",
    )
    catalog_key_command: str | None = Field(
        None,
        description="A command that prints such keys, run without a shell at the start and by ROTATE KEY.",
    )
    views: Annotated[str | None, BeforeValidator(_views_url)] = Field(
        None,
        description="A ClickHouse database of this server's own that keeps the rows of materialized views, such as "
        "`clickhouse://headrace@ch.example.com:8443/headrace_views`, instead of a file of the data directory; `clickhouse+http://` is "
        "without TLS.",
    )
    views_password: SecretStr | None = Field(None, description="The password of its user.")
    views_password_file: Path | None = Field(
        None, description="A file with that password, instead of the variable."
    )
    host: str = Field("127.0.0.1", description="Address to bind.")
    port: int = Field(8080, description="Port to bind; 0 takes a free one.")
    tls_cert: Path | None = Field(
        None,
        description="A file with the server's certificate and those that vouch for it, PEM: it speaks TLS then.",
    )
    tls_key: Path | None = Field(
        None, description="The certificate's private key, PEM, if that is not in the same file."
    )
    allowed_hosts: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_hosts)] = Field(
        (),
        description="Names, with or without a port and separated by commas, that requests may be sent to, and whose pages "
        "may send some, besides loopback and the server's own address.",
    )
    public_url: Annotated[str | None, BeforeValidator(_public_url)] = Field(
        None,
        description="Scheme and host that clients reach the server at, such as `https://data.example.com`: for streams "
        "behind a proxy.",
    )
    token: SecretStr | None = Field(
        None,
        description="The API token `administrator` of the user `admin` from this start on. Unset, the first start makes one and "
        "says where it is.",
    )
    session_idle_minutes: int = Field(
        60,
        ge=1,
        description="After how many minutes without a request whoever signed in to the page must do so again.",
    )
    session_hours: int = Field(
        12, ge=1, description="After how many hours whoever signed in to the page must do so again."
    )
    oidc_issuer: Annotated[str | None, BeforeValidator(_issuer)] = Field(
        None,
        description="The OpenID Connect provider that people sign in to the page with: its issuer, such as "
        "`https://login.example.com/realms/data`.",
    )
    oidc_client_id: str | None = Field(None, description="What the provider calls this server.")
    oidc_client_secret: SecretStr | None = Field(
        None, description="The secret that it shares with the provider; without one, PKCE alone."
    )
    oidc_name: str = Field("single sign-on", description="What the page's button says: Sign in with ….")
    oidc_scopes: str = Field("openid email profile", description="What the provider is asked for.")
    oidc_groups_claim: str = Field("groups", description="The claim that has a user's groups.")
    oidc_roles: Annotated[tuple[tuple[str, str], ...], NoDecode, BeforeValidator(_roles)] = Field(
        (),
        description="Which group gives which role, such as `engineers=analyst,data-admins=sysadmin`: who signs in gets and loses these "
        "roles as the provider says.",
    )
    oidc_create_users: bool = Field(
        False, description="Whether whoever the provider knows becomes a user; else one must be invited."
    )
    audit_days: int = Field(90, ge=1, description="For how many days the audit log is kept.")
    egress_allowed: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_egress)] = Field(
        EGRESS_DEFAULT,
        description="Where stores and schema registries may be, separated by commas: `loopback`, `private`, `public`, networks such as "
        "`10.1.0.0/16`, names such as `db.example.com` or `*.example.com`.",
    )
    spark_master: str = Field(
        "local[32]",
        description="Spark master of the driver of each small compute pool; larger ones have more of the tasks of `local[n]`.",
    )
    spark_secret: SecretStr | None = Field(
        None,
        description="What a Spark cluster's processes share as `spark.authenticate.secret`; not for `local[n]`.",
    )
    driver_memory_mb: int = Field(
        2048,
        description="Heap of the driver of each small compute pool, in MiB; larger ones have two or four times as much.",
    )
    shuffle_partitions: int = Field(
        2, description="Partitions of stateful operators; fixed for a query's life."
    )
    small_batch_records: int = Field(
        2000,
        ge=0,
        description="A micro-batch of at most so many records, known before it is read, is one task and not a stage for "
        "each shuffle; 0: none is.",
    )
    reconcile_interval_ms: int = Field(
        500, description="How often the supervisor compares desired and actual state."
    )
    restart_backoff_ms: int = Field(
        1000, description="First delay before a failed query is restarted; doubles."
    )
    restart_backoff_max_ms: int = Field(
        60_000, description="Longest delay before a failed query is restarted."
    )
    stop_timeout_ms: int = Field(
        60_000, description="How long a query may take to end before its compute pool's driver is killed."
    )
    checkpoint_interval_ms: int = Field(
        10_000, ge=5000, description="Checkpoint interval of real-time queries; at least 5000."
    )
    planning_timeout_ms: int = Field(
        60_000,
        description="Processor time that Spark may take to plan a query before that query is given up.",
    )
    backlog_warning_bytes: int = Field(
        2**30,
        description="A query says so from this much log on that a store keeps until the query has read it, such as PostgreSQL for a slot.",
    )
    request_bytes_max: int = Field(16 * 1024 * 1024, description="Largest request body.")
    statement_timeout_ms: int = Field(
        20_000, description="After this a statement is answered 202 and polled."
    )
    result_rows_max: int = Field(10_000, description="Rows of one partition of a bounded result.")
    result_channel_rows_max: int = Field(
        10_000, description="Rows an interactive query may be ahead of its reader."
    )
    result_channel_grace_ms: int = Field(
        60_000, description="How long an interactive query waits for its reader."
    )
    snapshot_rows_max: int = Field(100_000, description="Rows of a query of materialized views.")
    snapshot_bytes_max: int = Field(
        32 * 1024 * 1024, description="Bytes of the result of a query of materialized views."
    )
    snapshot_memory_mb: int = Field(
        512,
        ge=256,
        description="Memory of each of the three processes that evaluate queries of materialized views, in MiB.",
    )
    interactive_queries_max: int = Field(16, description="Interactive queries running at a time.")

    def password_of_views(self) -> str:
        """Return the password from the environment or the file; empty if neither is given. Raises UserError 3D008 for a file that cannot
        be read."""
        if self.views_password is not None:
            return self.views_password.get_secret_value()
        if self.views_password_file is None:
            return ""
        try:
            return self.views_password_file.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
            raise UserError(
                SqlState.INVALID_PARAMETER,
                f"cannot read the password of views in {self.views_password_file}: {why}",
                hint="HEADRACE_VIEWS_PASSWORD_FILE names a text file that the server's user may read.",
            ) from None


SECRETS = tuple(
    f"HEADRACE_{name}"
    for name in (
        "TOKEN",
        "CATALOG_URL",
        "CATALOG_KEY",
        "SPARK_SECRET",
        "OIDC_CLIENT_SECRET",
        "VIEWS_PASSWORD",
    )
)
"""The variables of the environment that no process of ours hands on."""


def faults(error: ValidationError) -> list[str]:
    """Return the errors of the environment, a sentence for each setting; never a value, which may be a secret."""
    return [
        f"the setting HEADRACE_{'_'.join(map(str, item['loc'])).upper()} is wrong: {item['msg']}"
        for item in error.errors(include_input=False, include_url=False)
    ]
