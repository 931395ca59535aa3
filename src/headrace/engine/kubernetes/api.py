"""Requests to the API of a Kubernetes cluster, by its official client. Each blocks for some seconds at most."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from headrace.core.errors import ExternalError, UserError
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.engine.kubernetes.pods import Manifest
from headrace.engine.pool_properties import IN_CLUSTER

T = TypeVar("T")

_TIMEOUT_S = (5.0, 20.0)
_LOG_LINES = 2000
_LOG_BYTES = 1024 * 1024
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_NO_POD = (404,)
_OTHER_POD = (404, 409)
_NAME_IN_USE = (409,)
_NEEDED = (("create", "pods"), ("get", "pods"), ("list", "pods"), ("delete", "pods"), ("create", "secrets"))
"""Verbs without which a driver does not start or end. Without its log, it only lacks a reason."""


class KubernetesApi:
    """The pods of one namespace. Used from threads, one request at a time.

    Raises UserError 3D021 if the client is not installed, 3D008 if `master` is not the cluster of the settings; None is that cluster.
    """

    def __init__(self, master: str | None, settings: Settings) -> None:
        try:
            from kubernetes import client
        except ImportError:
            raise UserError(
                SqlState.MISSING_PARAMETER,
                "the server lacks the client of Kubernetes",
                hint="The operator installs headrace[kubernetes], and restarts the server.",
            ) from None
        configuration = client.Configuration()
        # Failed requests are reported, and the next look at a pod is another try.
        configuration.retries = False
        namespace = _load(master, settings, configuration)
        self.namespace = settings.kubernetes_namespace or namespace
        self.is_own_namespace = self.namespace == namespace
        """True if the server's own pod may be the owner of others: owners of another namespace do not exist for Kubernetes."""
        # Partly typed: its classes have optional fields only.
        self._api: Any = client.ApiClient(configuration)
        self._core: Any = client.CoreV1Api(self._api)
        self._authorization: Any = client.AuthorizationV1Api(self._api)
        self._error = client.ApiException

    def check(self) -> None:
        """Return if the API answers and the server may do what a launch does. Raises ExternalError 57015 otherwise."""
        for verb, resource in _NEEDED:
            attributes = {"verb": verb, "resource": resource, "namespace": self.namespace}
            review = self._call(
                self._authorization.create_self_subject_access_review,
                {
                    "apiVersion": "authorization.k8s.io/v1",
                    "kind": "SelfSubjectAccessReview",
                    "spec": {"resourceAttributes": attributes},
                },
            )
            if not review.status.allowed:
                raise ExternalError(
                    SqlState.REMOTE_UNAVAILABLE,
                    f"the server may not {verb} {resource} in the namespace {self.namespace}",
                    hint="The operator grants the role of the Helm chart to the server's service account.",
                )

    def create_pod(self, pod: Manifest) -> str | None:
        """Create a pod; return its uid, None if there is one of that name."""
        created = self._call(self._core.create_namespaced_pod, self.namespace, pod, ignored=_NAME_IN_USE)
        return None if created is None else str(created.metadata.uid)

    def create_secret(self, secret: Manifest) -> None:
        """Create a secret."""
        self._call(self._core.create_namespaced_secret, self.namespace, secret)

    def pod(self, name: str) -> Any | None:
        """Return a pod with its status; None if there is none."""
        return self._call(self._core.read_namespaced_pod, name, self.namespace, ignored=_NO_POD)

    def controller(self, name: str, uid: str) -> Manifest | None:
        """Return a reference to the controller of a pod, such as a StatefulSet, which outlives the pod; None if it has none."""
        pod = self.pod(name)
        owners = pod.metadata.owner_references or () if pod is not None and pod.metadata.uid == uid else ()
        return next(
            (
                {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
                for owner in owners
                if owner.controller
            ),
            None,
        )

    def pods(self, selector: str) -> list[Any]:
        """Return the pods with these labels."""
        pods = self._call(self._core.list_namespaced_pod, self.namespace, label_selector=selector)
        return list(pods.items)

    def delete_pod(self, name: str, uid: str | None = None) -> None:
        """Let a pod end, if it exists and has that uid; None is any. Its secret is deleted with it."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        body = {"body": options} if uid is not None else {}
        self._call(self._core.delete_namespaced_pod, name, self.namespace, ignored=_OTHER_POD, **body)

    def log(self, name: str) -> str:
        """Return the end of a pod's log; empty if there is none."""
        text = self._call(
            self._core.read_namespaced_pod_log,
            name,
            self.namespace,
            tail_lines=_LOG_LINES,
            limit_bytes=_LOG_BYTES,
            ignored=_NO_POD,
        )
        return str(text or "")

    def close(self) -> None:
        """Close the connections."""
        self._api.close()

    def _call(
        self, request: Callable[..., T], *arguments: Any, ignored: tuple[int, ...] = (), **options: Any
    ) -> T:
        import urllib3

        try:
            return request(*arguments, **options, _request_timeout=_TIMEOUT_S)
        except self._error as error:
            if error.status in ignored:
                return None  # type: ignore[return-value]
            raise ExternalError(
                SqlState.REMOTE_UNAVAILABLE,
                f"the API of Kubernetes refuses a request ({error.status}): {_message(error.body)}",
                hint="docs/growing.md describes what the server's service account needs.",
            ) from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ExternalError(
                SqlState.REMOTE_UNAVAILABLE,
                f"the API of Kubernetes at {self._api.configuration.host} does not answer: {type(error).__name__}",
                hint="Check the cluster, and HEADRACE_KUBERNETES_CONFIG if it is set.",
            ) from None


def _load(master: str | None, settings: Settings, configuration: Any) -> str:
    """Read address and credentials of the cluster; return the namespace by default."""
    from kubernetes import config as untyped

    config: Any = untyped
    file = settings.kubernetes_config
    try:
        if master == IN_CLUSTER or (master is None and file is None):
            config.load_incluster_config(client_configuration=configuration)
            namespace = ""
            with suppress(OSError):
                namespace = _NAMESPACE_FILE.read_text(encoding="ascii").strip()
            return namespace or "default"
        if master is not None and file is None:
            raise _foreign(master, f"'{IN_CLUSTER}', since HEADRACE_KUBERNETES_CONFIG is not set")
        config.load_kube_config(str(file), client_configuration=configuration)
    except (config.ConfigException, OSError) as error:
        source = "the service account of the pod" if file is None or master == IN_CLUSTER else os.fspath(file)
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"cannot use {source}: {str(error)[:200]}",
            hint="The operator corrects HEADRACE_KUBERNETES_CONFIG, or runs the server in a pod with a mounted token.",
        ) from None
    # The credentials must reach no other server.
    if master is not None and str(configuration.host).rstrip("/") != master.removeprefix("k8s://").rstrip(
        "/"
    ):
        raise _foreign(master, f"'k8s://{configuration.host}', the cluster of HEADRACE_KUBERNETES_CONFIG")
    _, context = config.list_kube_config_contexts(str(file))
    return str(context.get("context", {}).get("namespace") or "default")


def _foreign(master: str, expected: str) -> UserError:
    return UserError(
        SqlState.INVALID_PARAMETER,
        f"the server has no credentials for {master}, expected {expected}",
        hint="Correct 'compute_pool.master'.",
    )


def _message(body: object) -> str:
    """Return the message of a Status object of the API."""
    with suppress(ValueError, TypeError, AttributeError):
        return str(json.loads(str(body)).get("message", ""))[:300]
    return str(body)[:300]
