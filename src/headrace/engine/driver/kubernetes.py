"""Spark's settings of a driver that is a pod of Kubernetes: it creates its executors by the API of the cluster."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from headrace.engine.kubernetes.pods import (
    BUCKET_FILE,
    CREDENTIALS,
    SPARK_SECRET_FILE,
    PodOptions,
    executor_template,
)

_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_OVERHEAD = "0.4"
"""Part of an executor's heap that its pod has besides: RocksDB and Python need more than Spark's tenth."""


def read_bucket_login(credentials: Path) -> None:
    """Set the variables of the login for the bucket of checkpoints, which a driver on the server's machine inherits, from the volume."""
    with suppress(FileNotFoundError):
        os.environ.update(json.loads((credentials / BUCKET_FILE).read_text()))


def master() -> str:
    """Return Spark's name of the API of the pod's own cluster, from the variables that every container has."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    return f"k8s://https://{f'[{host}]' if ':' in host else host}:{port}"


def address() -> str:
    """Return the address of the pod, at which its executors reach the driver."""
    return os.environ["HEADRACE_POD_IP"]


def settings(pods: PodOptions, work_dir: Path) -> dict[str, str]:
    """Return Spark's settings, and write the template of executors that they name."""
    template = work_dir / "executor.json"
    # YAML contains JSON.
    template.write_text(json.dumps(executor_template(pods)))
    return {
        "spark.kubernetes.namespace": pods.namespace,
        "spark.kubernetes.container.image": pods.image,
        "spark.kubernetes.container.image.pullPolicy": "IfNotPresent",
        # The owner of the executors: Kubernetes deletes them with the driver.
        "spark.kubernetes.driver.pod.name": pods.pod,
        "spark.kubernetes.executor.podNamePrefix": pods.pod,
        "spark.kubernetes.executor.podTemplateFile": str(template),
        "spark.kubernetes.executor.podTemplateContainerName": "executor",
        "spark.kubernetes.executor.disableConfigMap": "true",
        # There is none, and the role of drivers does not allow the request.
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        # Likewise: executors share one claim, which Spark neither owns nor looks for.
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
        "spark.kubernetes.authenticate.caCertFile": f"{_ACCOUNT}/ca.crt",
        "spark.kubernetes.authenticate.oauthTokenFile": f"{_ACCOUNT}/token",
        "spark.executor.memoryOverheadFactor": _OVERHEAD,
    }


def authentication() -> dict[str, str]:
    """Return the settings by which driver and executors read their secret from a volume: it is in no manifest and no variable."""
    # Not spark.authenticate.secret.executor.file: an executor asks the driver for its settings before it reads that one.
    return {"spark.authenticate.secret.file": str(CREDENTIALS / SPARK_SECRET_FILE)}
