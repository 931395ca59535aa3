"""Properties that say where a compute pool runs, and how many executors it has there.

They are stored with the pool as texts. `place_of` returns what they mean together with the settings of the server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from headrace.connectors.checkpoint_bucket import SCHEME, Login, folder_at
from headrace.connectors.egress import Egress
from headrace.connectors.hosts import check_listening
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.properties import (
    TEXT,
    PropertyReader,
    PropertySpec,
    PropertyType,
    Scope,
    Specs,
    matching,
    number,
)
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState

_THREADS_MAX = 256
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252})"
_CLUSTER = re.compile(rf"spark://({_HOST}:\d{{1,5}}(?:,{_HOST}:\d{{1,5}}){{0,4}})", re.ASCII)
_LOCAL = re.compile(r"local\[(\d{1,3})\]", re.ASCII)
_KUBERNETES = "k8s://"
IN_CLUSTER = "k8s://in-cluster"
_API = re.compile(rf"k8s://https://{_HOST}(?::\d{{1,5}})?", re.ASCII)
_CONNECT_TIMEOUT_S = 5.0
_TIME = matching(r"\d{1,6}(ms|s|m)", "a number with ms, s or m")
_MEMORY = matching(r"[1-9]\d{0,6}[mg]", "a number with m or g, such as 512m or 4g")


def _master(text: str) -> str:
    text = text.strip()
    local = _LOCAL.fullmatch(text)
    if not (local and 1 <= int(local[1]) <= _THREADS_MAX) and not (
        _CLUSTER.fullmatch(text) or _API.fullmatch(text) or text == IN_CLUSTER
    ):
        raise ValueError(text)
    return text


def _folder(text: str) -> str:
    if text.strip().startswith(SCHEME):
        return folder_at(text.strip(), Login()).uri
    path = Path(unquote(text.strip().removeprefix("file:")))
    is_file = text.strip().startswith("file:") and path.is_absolute() and "\0" not in str(path)
    if not is_file or ".." in path.parts:
        raise ValueError(text)
    return f"file:{Path('/', *path.parts[1:])}"


MASTER = PropertySpec(
    "compute_pool.master",
    PropertyType(
        f"local[n], with n up to {_THREADS_MAX}, spark://host:port, {IN_CLUSTER}, or k8s://https://host:port",
        _master,
    ),
    Scope.POOL,
    "the Spark master: `local[n]` for n tasks on the server's machine, `spark://host:port` for a standalone cluster, "
    "`k8s://in-cluster` for the Kubernetes cluster of the server's pod, or `k8s://https://host:port` for that of "
    "`HEADRACE_KUBERNETES_CONFIG`",
    default="`HEADRACE_SPARK_MASTER`, times the size",
)
EXECUTORS = PropertySpec(
    "compute_pool.executors",
    number(1, 1000, "a number from 1 to 1000"),
    Scope.POOL,
    "of a cluster: executors",
    default="1",
)
EXECUTORS_MIN = PropertySpec(
    "compute_pool.executors.min",
    EXECUTORS.type,
    Scope.POOL,
    "of a cluster: the fewest executors of a pool whose number follows the load; requires `compute_pool.executors.max`",
    default="1",
)
EXECUTORS_MAX = PropertySpec(
    "compute_pool.executors.max",
    EXECUTORS.type,
    Scope.POOL,
    "of a cluster: the most executors of a pool whose number follows the load, in place of `compute_pool.executors`",
)
CORES = PropertySpec(
    "compute_pool.executor.cores",
    number(1, 256, "a number from 1 to 256"),
    Scope.POOL,
    "of a cluster: tasks that an executor runs at the same time",
    default="1",
)
MEMORY = PropertySpec(
    "compute_pool.executor.memory", _MEMORY, Scope.POOL, "of a cluster: the heap of an executor", default="1g"
)
CHECKPOINTS = PropertySpec(
    "compute_pool.checkpoints",
    PropertyType(
        "s3://bucket/folder, or file:/path, a folder that the server and all workers share", _folder
    ),
    Scope.POOL,
    "`s3://bucket/folder`, or, of a cluster, `file:` and a folder that the server and all workers see under this path; in one of "
    "`HEADRACE_CHECKPOINT_FOLDERS`",
    default="`checkpoints` in the server's data directory",
)
SPARK = PropertySpec(
    "compute_pool.spark.",
    TEXT,
    Scope.POOL,
    "of a cluster: a setting of Spark, one of those below",
    open=True,
)
_OF_CLUSTER = (EXECUTORS, EXECUTORS_MIN, EXECUTORS_MAX, CORES, MEMORY, SPARK)
PLACE = (MASTER, *_OF_CLUSTER, CHECKPOINTS)

SPARK_SETTINGS: Mapping[str, PropertyType[str]] = {
    "executor.heartbeatInterval": _TIME,
    "executor.memoryOverhead": _MEMORY,
    "locality.wait": _TIME,
    "memory.fraction": matching(r"0\.[1-9]", "a number from 0.1 to 0.9"),
    "network.timeout": _TIME,
    "rpc.askTimeout": _TIME,
    "task.maxFailures": matching(r"[1-9]\d?", "a number from 1 to 99"),
}
"""Settings of Spark that a pool may have: none of them runs code, opens a port, or changes the results or the state of a query."""


@dataclass(frozen=True)
class Cluster:
    """Executors of a pool on a cluster: `cores` tasks each, with a heap of `memory`. `settings` are further ones of Spark.

    With `executors_max`, their number follows the load, from `executors` to that.
    """

    executors: int
    cores: int
    memory: str
    settings: tuple[tuple[str, str], ...] = ()
    executors_max: int | None = None

    @property
    def most(self) -> int:
        """The most executors."""
        return self.executors if self.executors_max is None else self.executors_max

    @property
    def slots(self) -> int:
        """Tasks that run at the same time, with the most executors."""
        return self.most * self.cores


@dataclass(frozen=True)
class Place:
    """Spark master of a pool, the address of its checkpoints as in `CheckpointStore.uri` (None: the server's), and its executors.

    `cluster` is None on the server's machine, and on the cluster of HEADRACE_SPARK_MASTER for a pool without properties of its own, which
    takes all slots of that cluster.
    """

    master: str
    checkpoints: str | None = None
    cluster: Cluster | None = None

    @property
    def is_remote(self) -> bool:
        """True if the checkpoints are in S3."""
        return self.checkpoints is not None and self.checkpoints.startswith(SCHEME)


def is_cluster(master: str) -> bool:
    """True for a Spark master whose tasks do not run in the driver's process."""
    return not master.startswith("local")


def is_kubernetes(master: str) -> bool:
    """True for the API of a Kubernetes cluster, in which the driver is a pod too."""
    return master.startswith(_KUBERNETES)


def place_of(properties: Mapping[str, str], master: str) -> Place:
    """Return the place that stored properties of a pool mean; `master` is that of a pool without one."""
    master = properties.get(MASTER.name, master)
    uri = properties.get(CHECKPOINTS.name)
    checkpoints = uri.removeprefix("file:") if uri else None
    if not is_cluster(master):
        return Place(master, checkpoints)
    if not any(spec.matches_name(name) for spec in (MASTER, *_OF_CLUSTER) for name in properties):
        return Place(master, checkpoints)
    settings = [
        (f"spark.{name.removeprefix(SPARK.name)}", text)
        for name, text in sorted(properties.items())
        if SPARK.matches_name(name)
    ]
    most = properties.get(EXECUTORS_MAX.name)
    cluster = Cluster(
        executors=int(properties.get(EXECUTORS_MIN.name if most else EXECUTORS.name, "1")),
        cores=int(properties.get(CORES.name, "1")),
        memory=properties.get(MEMORY.name, "1g"),
        settings=tuple(settings),
        executors_max=int(most) if most else None,
    )
    return Place(master, checkpoints, cluster)


def read_place(reader: PropertyReader, settings: Settings) -> dict[str, str]:
    """Return the properties of a pool's place, to be stored.

    Raises UserError 3D008 for a value, for a property of a cluster without one, for numbers of executors that contradict each other, and
    for a folder that the operator does not allow; 3D021 if the server lacks a secret for a cluster, or settings for Kubernetes.
    """
    specs: Specs = PLACE
    taken = {spec.name: reader.take(spec) for spec in specs if not spec.open}
    texts = {name: str(value) for name, value in taken.items() if value is not None}
    texts |= _spark_settings(reader)
    master = texts.get(MASTER.name, settings.spark_master)
    if is_kubernetes(master):
        _check_kubernetes(texts, reader, settings)
    elif not is_cluster(master):
        for spec in _OF_CLUSTER:
            if any(spec.matches_name(name) for name in texts):
                raise UserError(
                    SqlState.INVALID_PARAMETER,
                    f"'{spec.name}' requires a pool on a cluster; the master is {master}",
                    hint=f"Set '{MASTER.name}' = 'spark://host:port', or leave the property out.",
                    span=reader.span(spec),
                )
    elif MASTER.name in texts and settings.spark_secret is None:
        raise UserError(
            SqlState.MISSING_PARAMETER,
            f"the server has no secret for the Spark cluster {master}",
            hint="The operator sets HEADRACE_SPARK_SECRET to spark.authenticate.secret of the cluster, and restarts the server.",
            span=reader.span(MASTER),
        )
    _check_executors(texts, reader)
    _check_heartbeats(texts, reader)
    if CHECKPOINTS.name in texts:
        _check_place(texts[CHECKPOINTS.name], master, reader, settings)
    return texts


def _check_kubernetes(texts: Mapping[str, str], reader: PropertyReader, settings: Settings) -> None:
    """Raise UserError 3D021 for a setting of the server or a property that pods need."""
    is_remote = texts.get(CHECKPOINTS.name, "").startswith(SCHEME)
    needed = (
        "driver_port",
        "driver_server",
        "kubernetes_image",
        *(() if is_remote else ("kubernetes_claim",)),
    )
    missing = [f"HEADRACE_{name.upper()}" for name in needed if getattr(settings, name) is None]
    if not is_remote and not settings.checkpoint_mounts:
        missing.append("HEADRACE_CHECKPOINT_FOLDERS")
    if missing:
        raise UserError(
            SqlState.MISSING_PARAMETER,
            f"the server is not set up for compute pools on Kubernetes: {', '.join(missing)} missing",
            hint="The operator sets what docs/growing.md describes, and restarts the server.",
            span=reader.span(MASTER),
        )
    if CHECKPOINTS.name not in texts:
        raise UserError(
            SqlState.MISSING_PARAMETER,
            f"a compute pool on Kubernetes requires '{CHECKPOINTS.name}'",
            hint=f"Set it to a folder of the claim {settings.kubernetes_claim}, such as 'file:{settings.checkpoint_mounts[0]}', or to s3://bucket/folder.",
            span=reader.span(MASTER),
        )


def _spark_settings(reader: PropertyReader) -> dict[str, str]:
    texts = {}
    for name, text in reader.take_all(SPARK).items():
        kind = SPARK_SETTINGS.get(name)
        try:
            if kind is None:
                raise UserError(
                    SqlState.INVALID_PARAMETER,
                    f"a compute pool does not accept Spark's setting 'spark.{name}'",
                    hint=f"It accepts {', '.join(f'spark.{known}' for known in SPARK_SETTINGS)}.",
                    span=reader.span(SPARK),
                )
            texts[f"{SPARK.name}{name}"] = kind.read(text)
        except ValueError:
            raise UserError(
                SqlState.INVALID_PARAMETER,
                f"'{SPARK.name}{name}' must be {kind.expected if kind else ''}, found {text!r}",
                span=reader.span(SPARK),
            ) from None
    return texts


def _check_executors(texts: Mapping[str, str], reader: PropertyReader) -> None:
    """Raise UserError 3D008 for a fixed number of executors beside bounds, for a least number without a greatest, and for one above it."""
    least, most = texts.get(EXECUTORS_MIN.name), texts.get(EXECUTORS_MAX.name)
    if EXECUTORS.name in texts and (least or most):
        bound = EXECUTORS_MAX if most else EXECUTORS_MIN
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"'{EXECUTORS.name}' and '{bound.name}' exclude each other",
            hint=f"Choose a fixed number with '{EXECUTORS.name}', or bounds with '{EXECUTORS_MIN.name}' and '{EXECUTORS_MAX.name}'. UPDATE "
            "COMPUTE_POOL removes a property whose value is NULL.",
            span=reader.span(bound),
        )
    if least and not most:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"'{EXECUTORS_MIN.name}' requires '{EXECUTORS_MAX.name}'",
            hint=f"Set '{EXECUTORS_MAX.name}' too, or '{EXECUTORS.name}' for a fixed number.",
            span=reader.span(EXECUTORS_MIN),
        )
    if least and most and int(least) > int(most):
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"'{EXECUTORS_MIN.name}' is {least}, and '{EXECUTORS_MAX.name}' is {most}",
            hint=f"Set '{EXECUTORS_MIN.name}' to a number up to '{EXECUTORS_MAX.name}'.",
            span=reader.span(EXECUTORS_MIN),
        )


def milliseconds(time: str) -> int:
    """Return a time of Spark's, such as 500ms, 30s or 2m, in milliseconds."""
    number, unit = time.rstrip("ms"), time.lstrip("0123456789")
    return int(number) * {"ms": 1, "s": 1000, "m": 60_000}[unit]


def _check_heartbeats(texts: Mapping[str, str], reader: PropertyReader) -> None:
    """Raise UserError 3D008 if heartbeats are as far apart as they may be late: Spark does not start then."""
    timeout = texts.get(f"{SPARK.name}network.timeout", "120s")
    interval = texts.get(f"{SPARK.name}executor.heartbeatInterval", "10s")
    # Spark rounds the first to seconds.
    if milliseconds(timeout) // 1000 * 1000 <= milliseconds(interval):
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"'{SPARK.name}network.timeout' is {timeout}, and the interval of heartbeats is {interval}",
            hint=f"Set it to several times '{SPARK.name}executor.heartbeatInterval', which is 10s by default.",
            span=reader.span(SPARK),
        )


def _check_place(uri: str, master: str, reader: PropertyReader, settings: Settings) -> None:
    """Raise UserError 3D008 unless the place is below one that the operator allows, since the server writes to it as its own user, and, for
    a folder, unless it exists and the pool is on a cluster."""
    roots = settings.checkpoint_folders
    if uri.startswith(SCHEME):
        allowed = [root for root in roots if root.startswith(SCHEME)]
        is_allowed = any(f"{uri}/".startswith(f"{root}/") for root in allowed)
    else:
        allowed = [str(Path(root).resolve()) for root in roots if not root.startswith(SCHEME)]
        folder = Path(uri.removeprefix("file:"))
        is_allowed = any(folder.resolve().is_relative_to(root) for root in allowed)
    if not is_allowed:
        places = f"a place in {' or '.join(allowed)}"
        raise reader.bad(
            CHECKPOINTS, places if allowed else "left out: HEADRACE_CHECKPOINT_FOLDERS allows none"
        )
    if uri.startswith(SCHEME):
        return
    if not is_cluster(master):
        raise reader.bad(CHECKPOINTS, f"s3://bucket/folder, since the master is {master}")
    if not folder.is_dir():
        raise reader.bad(CHECKPOINTS, "a folder that exists on the server's machine")


def login(settings: Settings) -> Login:
    """Return the login of the server for buckets of checkpoints."""
    secret = settings.checkpoint_s3_secret_access_key
    return Login(
        settings.checkpoint_s3_endpoint,
        settings.checkpoint_s3_region,
        settings.checkpoint_s3_access_key_id,
        secret.get_secret_value() if secret else None,
    )


def check_bucket(uri: str, settings: Settings) -> None:
    """Return if a place in S3 can keep checkpoints; blocks for some seconds at most. Raises as `S3Folder.check`."""
    folder_at(uri, login(settings)).check()


def check_master(master: str, egress: Egress) -> None:
    """Return if a master of a cluster accepts connections; blocks for some seconds at most.

    Raises UserError 3D008 for an address that the operator does not allow, ExternalError 57015 for masters that do not answer.
    """
    cluster = _CLUSTER.fullmatch(master)
    if cluster is None:
        return
    failures = []
    for address in cluster[1].split(","):
        host, _, port = address.rpartition(":")
        try:
            for resolved in egress.addresses(host, int(port))[:2]:
                check_listening(resolved, int(port), timeout_s=_CONNECT_TIMEOUT_S, hint="")
                return
        except UserError:
            raise
        except (OSError, OverflowError, HeadraceError) as error:
            reason = (
                error.message
                if isinstance(error, HeadraceError)
                else getattr(error, "strerror", None) or str(error)
            )
            failures.append(f"{address}: {reason}")
    raise ExternalError(
        SqlState.REMOTE_UNAVAILABLE,
        f"the Spark master does not answer ({'; '.join(failures)})",
        hint=f"Start the master, or correct '{MASTER.name}'.",
    )
