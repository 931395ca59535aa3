"""Manifests of a driver, its secret and its executors, and what the status of a pod means. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from pydantic import BaseModel, ConfigDict

Manifest = dict[str, Any]

USER = 10001
"""The user id of deploy/Containerfile."""
CREDENTIALS = PurePosixPath("/etc/headrace/driver")
SPARK_SECRET_FILE = "spark-secret"  # noqa: S105 - a file's name
BUCKET_FILE = "bucket.json"
"""The login for the bucket of checkpoints, as variables of the environment by name. Executors get it from the driver, with their tasks."""
WORK = PurePosixPath("/work")
GRACE_S = 20
_CHECKPOINTS = "checkpoints"
_OVERHEAD = 0.4
_OVERHEAD_MB_MIN = 768
"""Memory of a driver's pod beside the heap: its Python, and the JVM's own."""
_NAME_MAX = 24
_PULL_FAILURES = {"ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}
_CREATE_FAILURES = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}


class PodOptions(BaseModel):
    """Facts about a driver's pod that its executors share, and that the driver needs to create them. `claim` is mounted at `folder`; None
    if the checkpoints are in S3."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    namespace: str
    pod: str
    secret: str
    image: str
    service_account: str
    claim: str | None
    folder: str | None
    labels: dict[str, str]


@dataclass(frozen=True)
class Trouble:
    """Reason that keeps a pod from running. `is_final`: waiting does not help."""

    reason: str
    is_final: bool = False


def pod_name(catalog: str, pool: str) -> str:
    """Return the name of the pod of a pool's driver. No two drivers of a pool exist at once, since names of pods are unique."""
    digest = hashlib.sha256(f"{catalog}\0{pool}".encode()).hexdigest()[:10]
    readable = re.sub(r"[^a-z0-9]+", "-", pool.lower())[:_NAME_MAX].strip("-")
    return "-".join(part for part in ("headrace", readable, digest) if part)


def labels(catalog: str, name: str) -> dict[str, str]:
    """Return the labels of a driver's pod; those of its executors differ in the component."""
    return {
        "app.kubernetes.io/name": "headrace",
        "app.kubernetes.io/component": "driver",
        "app.kubernetes.io/managed-by": "headrace",
        "headrace.io/catalog": catalog,
        "headrace.io/driver": name,
    }


def drivers_selector(catalog: str) -> str:
    """Return the selector of all pods of drivers of a catalog."""
    return f"headrace.io/catalog={catalog},app.kubernetes.io/component=driver"


def driver_pod(
    options: PodOptions,
    *,
    arguments: list[str],
    heap_mb: int,
    owner: Manifest | None,
    secret_files: Iterable[str],
) -> Manifest:
    """Return the pod of a driver. It is deleted with its `owner`, a reference to an object. `secret_files` are those of its secret."""
    memory = heap_mb + max(_OVERHEAD_MB_MIN, int(heap_mb * _OVERHEAD))
    container = _container("driver", options)
    container |= {
        "command": ["python", "-m", "headrace.engine.driver"],
        "args": arguments,
        "env": [{"name": "HEADRACE_POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        # No limit of processor time: a batch may use what the node has.
        "resources": {"requests": {"cpu": "1", "memory": f"{memory}Mi"}, "limits": {"memory": f"{memory}Mi"}},
    }
    spec = _spec(options, container, secret_files=secret_files)
    # Its token is needed: Spark creates the pods of executors.
    spec["automountServiceAccountToken"] = True
    metadata: Manifest = {"name": options.pod, "namespace": options.namespace, "labels": options.labels}
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def driver_secret(options: PodOptions, files: Mapping[str, str], uid: str) -> Manifest:
    """Return the secret of a driver, which is deleted with its pod of that uid."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": options.secret,
            "namespace": options.namespace,
            "labels": options.labels,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": options.pod, "uid": uid}],
        },
        "type": "Opaque",
        "immutable": True,
        "stringData": dict(files),
    }


def executor_template(options: PodOptions) -> Manifest:
    """Return the template of executors, to which Spark adds name, resources, arguments and variables."""
    container = _container("executor", options)
    container["command"] = ["python", "-m", "headrace.runtime.executor"]
    # Spark sends files to the folder in which an executor starts.
    container["workingDir"] = str(WORK)
    spec = _spec(options, container, secret_files=(SPARK_SECRET_FILE,))
    spec["automountServiceAccountToken"] = False
    labels = {**options.labels, "app.kubernetes.io/component": "executor"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": labels}, "spec": spec}


def _container(name: str, options: PodOptions) -> Manifest:
    return {
        "name": name,
        "image": options.image,
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "scratch", "mountPath": "/tmp"},  # noqa: S108 - of a container
            {"name": "work", "mountPath": str(WORK)},
            {"name": "credentials", "mountPath": str(CREDENTIALS), "readOnly": True},
            *([{"name": _CHECKPOINTS, "mountPath": options.folder}] if options.folder is not None else []),
        ],
    }


def _spec(options: PodOptions, container: Manifest, *, secret_files: Iterable[str]) -> Manifest:
    claim = {"name": _CHECKPOINTS, "persistentVolumeClaim": {"claimName": options.claim}}
    items = [{"key": name, "path": name} for name in secret_files]
    return {
        "restartPolicy": "Never",
        # Of executors too, for the secrets by which images are pulled.
        "serviceAccountName": options.service_account,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_S,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [
            {"name": "scratch", "emptyDir": {}},
            {"name": "work", "emptyDir": {}},
            {
                "name": "credentials",
                "secret": {"secretName": options.secret, "defaultMode": 0o440, "items": items},
            },
            *([claim] if options.claim is not None else []),
        ],
    }


def exit_of(pod: Any) -> tuple[int, str | None] | None:
    """Return the exit code of a driver's or an executor's pod, and the reason that Kubernetes knows; None while it has not ended."""
    status = pod.status
    for container in status.container_statuses or ():
        ended = container.state.terminated if container.state else None
        if ended is not None:
            if ended.reason == "OOMKilled":
                limit = _memory_limit(pod)
                return (
                    ended.exit_code,
                    f"Kubernetes ended the pod {pod.metadata.name}: it used more than {limit} of memory",
                )
            return ended.exit_code, None
    if status.phase in ("Failed", "Succeeded"):
        why = ": ".join(part for part in (status.reason, status.message) if part)
        return 1, f"Kubernetes ended the pod {pod.metadata.name}: {why[:300] or status.phase}"
    return None


def trouble_of(pod: Any) -> Trouble | None:
    """Return what keeps a pod from running; None if it runs, or starts as expected."""
    name, status = pod.metadata.name, pod.status
    for condition in status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return Trouble(
                f"no node takes the pod {name}: {(condition.message or condition.reason or '')[:300]}"
            )
    for container in status.container_statuses or ():
        waiting = container.state.waiting if container.state else None
        if waiting is None:
            continue
        text = f"{waiting.reason}: {waiting.message}"[:300] if waiting.message else waiting.reason
        if waiting.reason in _PULL_FAILURES:
            return Trouble(
                f"the image {container.image} of the pod {name} cannot be pulled: {text}", is_final=True
            )
        if waiting.reason in _CREATE_FAILURES:
            return Trouble(f"the container of the pod {name} cannot be created: {text}")
    return None


def _memory_limit(pod: Any) -> str:
    limits = pod.spec.containers[0].resources.limits or {}
    return str(limits.get("memory", "its limit"))
