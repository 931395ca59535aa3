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
_SCOPE = re.compile(r"[!#-+\--\[\]-~]+")
"""A scope of OAuth (RFC 6749, section 3.3) without commas."""
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


def _endpoint(value: object) -> object:
    if isinstance(value, str):
        parts = urlsplit(value)
        if (
            parts.scheme not in ("http", "https")
            or not parts.hostname
            or parts.username
            or parts.path.strip("/")
        ):
            raise ValueError("expected an address such as https://minio.example.com")
        return value.rstrip("/")
    return value


def _folders(value: object) -> object:
    if not isinstance(value, str):
        return value
    folders = tuple(entry.strip().rstrip("/") for entry in value.split(",") if entry.strip())
    for folder in folders:
        if not folder.startswith(("/", "s3://")):
            raise ValueError(
                f"expected absolute paths such as /mnt/headrace, or URIs such as s3://bucket/headrace, found {folder!r}"
            )
    return folders


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
            "expected no password in the address: set HEADRACE_VIEWS_PASSWORD, or "
            "HEADRACE_VIEWS_PASSWORD_FILE"
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


def _scopes(value: object) -> object:
    if not isinstance(value, str):
        return value
    scopes = tuple(part.strip() for part in value.split(",") if part.strip())
    if not all(map(_SCOPE.fullmatch, scopes)):
        raise ValueError("expected scopes of OAuth, separated by commas")
    return scopes


def _roles(value: object) -> object:
    if not isinstance(value, str):
        return value
    pairs = [entry.rpartition("=") for entry in value.split(",") if entry.strip()]
    if not all(group.strip() and role.strip() for group, _, role in pairs):
        raise ValueError("expected group=role pairs, separated by commas")
    return tuple((group.strip(), role.strip()) for group, _, role in pairs)


def _spark_master(value: object) -> object:
    if isinstance(value, str) and value.startswith("k8s:"):
        raise ValueError(
            "expected local[n] or spark://host:port; a pool on Kubernetes has 'compute_pool.master'"
        )
    return value


def _host_and_port(value: object) -> object:
    if not isinstance(value, str) or not value:
        return None
    if not re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}", value):
        raise ValueError("expected a host and a port such as headrace.default.svc:7443")
    return value


class Settings(BaseSettings):
    """Settings of a server process. Flags of `headrace up` override the environment."""

    model_config = SettingsConfigDict(env_prefix="HEADRACE_", frozen=True)

    data_dir: Path = Field(
        default_factory=lambda: user_data_path("headrace"),
        description="Directory of the catalog, checkpoints, views and logs.",
    )
    adopt_data_dir: bool = Field(
        False,
        description="Start with a new data directory although the catalog belongs to a lost one. Queries "
        "then start without their checkpoints, unless these are in S3, and views without their rows. Set it "
        "for one start only.",
    )
    aside_days: int = Field(
        7,
        ge=0,
        description="Days for which checkpoints and view rows that are unknown to the catalog are kept aside "
        "before they are deleted.",
    )
    catalog_url: Annotated[SecretStr | None, BeforeValidator(_catalog_url)] = Field(
        None,
        description="A PostgreSQL database for the catalog, such as "
        "`postgresql://headrace:secret@db.example.com/headrace`, instead of a file in the data "
        "directory.",
    )
    shared_dir: Path | None = Field(
        None,
        description="A folder that all servers of a catalog in PostgreSQL see, such as a mount, for checkpoints and savepoints. With it, a "
        "server that starts while another one leads stands by, and takes over when that one ends.",
    )
    catalog_key: SecretStr | None = Field(
        None,
        description="The key that encrypts secrets in the catalog, 32 bytes in base64, instead of the file "
        "`catalog.key` in the data directory. Of several keys, separated by commas, the first "
        "encrypts and all decrypt.",
    )
    catalog_key_command: str | None = Field(
        None,
        description=(
            "A command that prints these keys. It runs without a shell, at the start and by ROTATE KEY."
        ),
    )
    views: Annotated[str | None, BeforeValidator(_views_url)] = Field(
        None,
        description="A ClickHouse database for the rows of materialized views, used by this server only, "
        "such as `clickhouse://headrace@ch.example.com:8443/headrace_views`, instead of a file "
        "in the data directory. `clickhouse+http://` connects without TLS.",
    )
    views_password: SecretStr | None = Field(None, description="The password of the ClickHouse user.")
    views_password_file: Path | None = Field(
        None, description="A file with the password of the ClickHouse user, instead of the variable."
    )
    host: str = Field("127.0.0.1", description="Address to bind.")
    port: int = Field(8080, description="Port to bind; 0 selects a free one.")
    postgres_port: int | None = Field(
        None,
        ge=0,
        le=65_535,
        description=(
            "Port on the same address for clients of PostgreSQL; 0 selects a free one. If it is not set, "
            "there is no such port. An address other than loopback requires TLS."
        ),
    )
    postgres_scram: bool = Field(
        False,
        description=(
            "Let clients of that port sign in by SCRAM-SHA-256, so that they send no password. Passwords and API tokens that were set "
            "without this setting do not work at the port then: set or renew them."
        ),
    )
    tls_cert: Path | None = Field(
        None,
        description=(
            "A PEM file with the server's certificate and its chain. If it is set, the server speaks TLS."
        ),
    )
    tls_key: Path | None = Field(
        None, description="The certificate's private key, PEM, if the certificate's file does not contain it."
    )
    allowed_hosts: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_hosts)] = Field(
        (),
        description="Host names, with or without a port and separated by commas, that the server accepts in "
        "requests and as origins of pages, besides loopback and its own address.",
    )
    public_url: Annotated[str | None, BeforeValidator(_public_url)] = Field(
        None,
        description="Scheme and host at which clients reach the server, such as `https://data.example.com`. "
        "Streams behind a proxy need it.",
    )
    token: SecretStr | None = Field(
        None,
        description="The API token `administrator` of the user `admin`, from this start on. If it is not "
        "set, the first start creates a token and prints the path of its file.",
    )
    session_idle_minutes: int = Field(
        60,
        ge=1,
        description="Minutes without a request after which a user of the page must sign in again.",
    )
    session_hours: int = Field(
        12, ge=1, description="Hours after which a user of the page must sign in again."
    )
    oidc_issuer: Annotated[str | None, BeforeValidator(_issuer)] = Field(
        None,
        description="Issuer of the OpenID Connect provider for signing in to the page, such as "
        "`https://login.example.com/realms/data`.",
    )
    oidc_client_id: str | None = Field(None, description="The client id of this server at the provider.")
    oidc_client_secret: SecretStr | None = Field(
        None,
        description=(
            "The client secret that the server shares with the provider. Without it, PKCE alone is used."
        ),
    )
    oidc_name: str = Field("single sign-on", description="The text of the page's button: Sign in with ….")
    oidc_scopes: str = Field(
        "openid email profile", description=("The scopes that the server requests from the provider.")
    )
    oidc_groups_claim: str = Field("groups", description="The claim that contains a user's groups.")
    oidc_roles: Annotated[tuple[tuple[str, str], ...], NoDecode, BeforeValidator(_roles)] = Field(
        (),
        description="Groups and the roles that they grant, such as `engineers=analyst,data-admins=sysadmin`. "
        "Each sign-in grants and revokes these roles according to the provider.",
    )
    oidc_create_users: bool = Field(
        False,
        description=(
            "Create a user for each account that the provider authenticates. If it is off, a "
            "user needs an invitation."
        ),
    )
    audit_days: int = Field(90, ge=1, description="Days for which the audit log is kept.")
    egress_allowed: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_egress)] = Field(
        EGRESS_DEFAULT,
        description="Networks and hosts at which stores and schema registries are allowed, separated by "
        "commas: `loopback`, `private`, `public`, networks such as `10.1.0.0/16`, names such as "
        "`db.example.com` or `*.example.com`.",
    )
    spark_master: Annotated[str, BeforeValidator(_spark_master)] = Field(
        "local[32]",
        description=(
            "Spark master of the driver of each small compute pool. A larger pool multiplies the "
            "tasks of `local[n]`."
        ),
    )
    spark_secret: SecretStr | None = Field(
        None,
        description=(
            "The secret `spark.authenticate.secret` that the processes of a Spark cluster share; not "
            "for `local[n]`."
        ),
    )
    driver_host: str = Field(
        "127.0.0.1",
        description=(
            "Address of this machine at which the workers of a Spark cluster reach the drivers. A name is resolved "
            "on this machine only. Drivers whose tasks run on this machine always use loopback."
        ),
    )
    worker_python: Path | None = Field(
        None,
        description=(
            "Python on the workers of a Spark cluster, such as `/opt/headrace/bin/python`: of this server's "
            "Python version, with this release of Headrace. Without it, tasks on a cluster cannot run Python."
        ),
    )
    checkpoint_folders: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_folders)] = Field(
        (),
        description=(
            "Places, separated by commas, in which compute pools may keep checkpoints: folders of S3, such as "
            "`s3://bucket/headrace`, and, for pools on a Spark cluster, mounts that this machine and all workers "
            "share under the same path."
        ),
    )
    checkpoint_s3_endpoint: Annotated[str | None, BeforeValidator(_endpoint)] = Field(
        None,
        description="Address of the S3 service of checkpoints, such as `https://minio.example.com`, if it is not AWS.",
    )
    checkpoint_s3_region: str = Field("us-east-1", description="Region of the buckets of checkpoints.")
    checkpoint_s3_access_key_id: str | None = Field(
        None,
        description="Id of the access key for the buckets of checkpoints; without one, the identity under which the server runs on AWS.",
    )
    checkpoint_s3_secret_access_key: SecretStr | None = Field(
        None, description="The secret of that access key."
    )
    driver_port: int | None = Field(
        None,
        ge=0,
        le=65_535,
        description="Port on the address of HEADRACE_HOST at which drivers in Kubernetes connect, with TLS and a token. If it is not set, "
        "there is no such port.",
    )
    driver_server: Annotated[str | None, BeforeValidator(_host_and_port)] = Field(
        None,
        description="Host and port at which pods reach HEADRACE_DRIVER_PORT, such as `headrace.default.svc:7443`.",
    )
    kubernetes_image: str | None = Field(
        None,
        description="The image of this release, for the drivers and executors of compute pools on Kubernetes. Without it there are no such "
        "pools.",
    )
    kubernetes_config: Path | None = Field(
        None,
        description="A kubeconfig file whose current context is the cluster of `k8s://https://…`. `k8s://in-cluster` needs none.",
    )
    kubernetes_namespace: str | None = Field(
        None,
        description="The namespace of the pods. By default that of the server's own pod, or of the kubeconfig.",
    )
    kubernetes_claim: str | None = Field(
        None,
        description="The claim of a volume that many pods can write. It is mounted at the folder of HEADRACE_CHECKPOINT_FOLDERS, in the "
        "server's pod too.",
    )
    kubernetes_service_account: str = Field(
        "headrace-driver",
        description="The service account of drivers, which may create the pods of executors.",
    )
    kubernetes_owner: str | None = Field(
        None,
        description="Name and uid of the server's own pod, as `name/uid`: Kubernetes deletes the drivers with its controller, such as a "
        "StatefulSet, or with the pod if it has none or `HEADRACE_DRIVER_ORPHAN_S` is 0.",
    )
    driver_memory_mb: int = Field(
        2048,
        description=(
            "Heap of the driver of each small compute pool, in MiB. A larger pool uses two or four "
            "times as much."
        ),
    )
    pools_standby: int = Field(
        0,
        ge=0,
        le=4,
        description="Idle driver processes that are warm: a small compute pool that starts, or whose driver has died, takes one over. "
        "Each has the heap of a small pool.",
    )
    shuffle_partitions: int = Field(
        2, description="Partitions of stateful operators; fixed when a query is created."
    )
    small_batch_records: int = Field(
        2000,
        ge=0,
        description="Records up to which a micro-batch runs as one task instead of a stage for each shuffle. "
        "The number must be known before the batch is read. 0 turns this off.",
    )
    reconcile_interval_ms: int = Field(
        500, description="Interval at which the supervisor compares the desired and the actual state."
    )
    restart_backoff_ms: int = Field(
        1000, description="First delay before a failed query is restarted; doubles with each failure."
    )
    restart_backoff_max_ms: int = Field(
        60_000, description="Longest delay before a failed query is restarted."
    )
    driver_orphan_s: int = Field(
        60,
        ge=0,
        le=86_400,
        description="Seconds for which the driver of a compute pool on a standalone cluster or on Kubernetes runs on without a server, so "
        "that a server that is started again takes it over with its queries; 0 ends it with its server. It has no effect with "
        "HEADRACE_SHARED_DIR.",
    )
    stop_timeout_ms: int = Field(
        60_000,
        description=("Time that a query may take to stop before the driver of its compute pool is killed."),
    )
    checkpoint_interval_ms: int = Field(
        10_000, ge=5000, description="Checkpoint interval of real-time queries; at least 5000."
    )
    planning_timeout_ms: int = Field(
        60_000,
        description="Processor time that Spark may use to plan a query before the query is rejected.",
    )
    backlog_warning_bytes: int = Field(
        2**30,
        description=(
            "Size of the log that a store retains for a query, such as PostgreSQL for a slot, from "
            "which the query reports a warning."
        ),
    )
    store_test_interval_s: float = Field(
        300.0,
        ge=0,
        description="Interval at which stores in use are tested, except for warehouses that a test would wake. 0 tests none.",
    )
    metrics_interval_s: float = Field(
        30.0,
        ge=0,
        description="Interval at which the metrics of queries and the slots of compute pools are kept. 0 keeps none.",
    )
    metrics_hours: float = Field(
        24.0, gt=0, description="Hours for which metrics of queries and slots of compute pools are kept."
    )
    slot_hour_price: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="Price of a slot of a compute pool for an hour, in any currency: `pool_usage` and `query_usage` then have costs.",
    )
    request_bytes_max: int = Field(16 * 1024 * 1024, description="Largest request body.")
    statement_timeout_ms: int = Field(
        20_000, description="Time after which the server answers 202 for a statement and the client polls."
    )
    result_rows_max: int = Field(10_000, description="Rows in one partition of a bounded result.")
    result_channel_rows_max: int = Field(
        10_000, description="Rows that an interactive query may be ahead of its reader."
    )
    result_channel_grace_ms: int = Field(
        60_000, description="Time that an interactive query waits for its reader."
    )
    snapshot_rows_max: int = Field(
        100_000, description=("Most rows that a query of materialized views may return.")
    )
    snapshot_bytes_max: int = Field(
        32 * 1024 * 1024, description="Most bytes that a query of materialized views may return."
    )
    snapshot_memory_mb: int = Field(
        512,
        ge=256,
        description="Memory of each of the three processes that evaluate queries of materialized views, in MiB.",
    )
    snapshot_timeout_ms: int = Field(
        15_000,
        gt=0,
        description="Time that a query of materialized views may take; keep it below `HEADRACE_STATEMENT_TIMEOUT_MS`.",
    )
    functions_memory_mb: int = Field(
        256,
        ge=64,
        description="Heap of a process that runs functions of users, in MiB; beside it it needs as much again, and 512 MiB.",
    )
    functions_timeout_ms: int = Field(
        30_000, gt=0, description="How long a function of a user may take for a batch of rows."
    )
    functions_confined: bool = Field(
        True,
        description="Whether functions of users run without access to files, network and other processes. Off, everybody who "
        "may create a function can do what the server can.",
    )
    functions_requirements: bool = Field(
        False,
        description="Whether functions of users in Python may require packages, which pip installs as wheels, from a list with "
        "their hashes.",
    )
    functions_egress: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_egress)] = Field(
        ("public",),
        description="Networks and hosts to which functions of users may connect that declare them in `egress.allow.uris`, in the words of "
        "`HEADRACE_EGRESS_ALLOWED`. On loopback, the server's own processes listen.",
    )
    mcp_scopes: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_scopes)] = Field(
        (),
        description="Scopes that access tokens for `/mcp` must have, separated by commas; clients request them. "
        "API tokens have none.",
    )
    mcp_rows_max: int = Field(1000, ge=1, description="Most rows that a tool of MCP returns.")
    mcp_bytes_max: int = Field(
        256 * 1024, ge=1024, description="Most bytes of rows that a tool of MCP returns."
    )
    mcp_seconds_max: int = Field(
        30, ge=1, description="Seconds that a tool of MCP waits for a result, or collects rows of a live one."
    )
    mcp_view_tools_max: int = Field(
        100, ge=0, description="Most materialized views that are tools of MCP; `select` reads all of them."
    )
    graphql_depth_max: int = Field(10, ge=1, description="Most levels of fields in a document of GraphQL.")
    graphql_aliases_max: int = Field(50, ge=0, description="Most aliases in a document of GraphQL.")
    graphql_cost_max: int = Field(
        20_000,
        ge=1,
        description="Most fields that a document of GraphQL may request, those of each row counted.",
    )
    graphql_page_rows_max: int = Field(
        1000,
        ge=250,
        description="Most rows in a page or an event of GraphQL. The console's lists request 250 at once.",
    )
    graphql_introspection: bool = Field(
        True,
        description="Whether clients may ask for the schema of GraphQL, which the documentation contains too.",
    )
    graphiql: bool = Field(
        False,
        description="Whether the console has the page GraphQL, an editor for operations; it needs introspection.",
    )
    queries_max: int = Field(
        0, ge=0, description="Most continuous queries that are to run at a time. 0 for no limit."
    )
    queries_per_role_max: int = Field(
        0,
        ge=0,
        description="Most continuous queries of one role that are to run at a time. 0 for no limit.",
    )
    queries_per_slot_max: int = Field(
        0,
        ge=0,
        description="Most continuous queries of a compute pool that are to run at a time, for each of its slots: the tasks that it runs "
        "at the same time. 0 for no limit.",
    )
    queue_queries: bool = Field(
        False,
        description="Whether a continuous query beyond `HEADRACE_QUERIES_PER_SLOT_MAX` waits until another one ends, instead of being "
        "refused.",
    )
    query_state_mb_max: int = Field(
        0,
        ge=0,
        description="Largest state of a continuous query, in memory and in files, in MiB: a query with a larger one "
        "is stopped. 0 for no limit.",
    )
    interactive_queries_max: int = Field(16, description="Most interactive queries that run at a time.")

    @property
    def queues_queries(self) -> bool:
        """True if new queries enter the queue of their compute pool."""
        return self.queue_queries and self.queries_per_slot_max > 0

    @property
    def checkpoint_mounts(self) -> tuple[Path, ...]:
        """The folders of `checkpoint_folders`, without those of S3."""
        return tuple(Path(place) for place in self.checkpoint_folders if place.startswith("/"))

    @property
    def durable_dir(self) -> Path:
        """The folder of what a server that takes over continues from: that of all servers, or the data directory."""
        return (self.shared_dir or self.data_dir).resolve()

    @property
    def lease_file(self) -> Path | None:
        """The file with the deadline of the lease, after which the drivers of this server are killed; None if no server stands by."""
        return self.data_dir.resolve() / "lease" if self.shared_dir is not None else None

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
            why = error.strerror if isinstance(error, OSError) else "the file is not UTF-8"
            raise UserError(
                SqlState.INVALID_PARAMETER,
                f"cannot read the password of views in {self.views_password_file}: {why}",
                hint="HEADRACE_VIEWS_PASSWORD_FILE must name a text file that the server's user can read.",
            ) from None


SECRETS = tuple(
    f"HEADRACE_{name}"
    for name in (
        "TOKEN",
        "CATALOG_URL",
        "CATALOG_KEY",
        "SPARK_SECRET",
        "CHECKPOINT_S3_SECRET_ACCESS_KEY",
        "OIDC_CLIENT_SECRET",
        "VIEWS_PASSWORD",
    )
)
"""The variables of the environment that no process of ours hands on."""


def faults(error: ValidationError) -> list[str]:
    """Return the errors of the environment, a sentence for each setting; never a value, which may be a secret."""
    return [
        f"invalid setting HEADRACE_{'_'.join(map(str, item['loc'])).upper()}: {item['msg']}"
        for item in error.errors(include_input=False, include_url=False)
    ]
