"""A namespace of a kube-apiserver, whose pods a test or a stand-in for a kubelet runs."""

from __future__ import annotations

import base64
import ssl
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from harness.authority import Authority
from harness.kubernetes.server import ADDRESS, KubernetesServer, Manifest, RefusedError

_GONE = (404, 409)
_RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}


class Namespace:
    """A new namespace with the strictest of the standards for pods, and one node; a context manager.

    It contains what `manifests` describe. The server of Headrace has the service account `account`, its drivers `driver_account`.
    """

    def __init__(
        self,
        server: KubernetesServer,
        name: str,
        manifests: Iterable[Manifest],
        *,
        account: str,
        driver_account: str,
    ) -> None:
        self.server = server
        self.name = name
        self.url = server.url
        self.certificate = server.certificate
        self.account = account
        self.driver_account = driver_account
        self.changed = threading.RLock()
        self.logs: dict[str, str] = {}
        self._node = f"node-of-{name}"
        self._port = _LogPort(self.logs)
        metadata = {"name": name, "labels": _RESTRICTED}
        server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}, name)
        # A controller of accounts creates it in every namespace.
        accounts: list[Manifest] = [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        ]
        created = [server.create(manifest, name) for manifest in [*accounts, *manifests]]
        [self.stateful_set_uid] = [
            each["metadata"]["uid"] for each in created if each["kind"] == "StatefulSet"
        ]

    def __enter__(self) -> Self:
        self._port.start()
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self._node}}
        self.server.create(node, self.name)
        status = {
            "addresses": [{"type": "InternalIP", "address": ADDRESS}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._port.port}},
        }
        self.server.request("PATCH", f"/api/v1/nodes/{self._node}/status", {"status": status})
        return self

    def __exit__(self, *_: object) -> None:
        self.server.request("DELETE", f"/api/v1/nodes/{self._node}")
        self._port.close()

    @property
    def objects(self) -> dict[str, dict[str, Manifest]]:
        """The pods and secrets of the namespace, by name."""
        return {kind: self._objects(kind) for kind in ("pods", "secrets")}

    def kubeconfig(self, folder: Path, *, server_name: str | None = None) -> Path:
        """Write a kubeconfig file with a token of the server of Headrace, and return its path."""
        assert server_name is None, "the address is in the certificate"
        token = self.server.token(self.name, self.account)
        return self.server.kubeconfig(folder / "kubeconfig", token, self.name)

    def token(self, pod: Manifest) -> str:
        """Return a token of a pod's service account that ends with the pod."""
        return self.server.token(self.name, pod["spec"]["serviceAccountName"], pod)

    def create_pod(self, pod: Manifest) -> Manifest:
        """Create a pod."""
        return self.server.create(pod, self.name)

    def bind(self, pod: str) -> None:
        """Place a pod on the node, as a scheduler does."""
        target = {"apiVersion": "v1", "kind": "Node", "name": self._node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
        with _absence_ignored():
            self.server.request("POST", f"{self._path('pods', pod)}/binding", binding)

    def set_status(self, pod: str, status: Manifest) -> None:
        """Change the status of a pod, if it exists, as a scheduler or a kubelet does."""
        with _absence_ignored():
            self.server.request("PATCH", f"{self._path('pods', pod)}/status", {"status": status})

    def remove(self, pod: str) -> None:
        """Remove a pod whose processes have ended, as a kubelet does."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
        with _absence_ignored():
            self.server.request("DELETE", self._path("pods", pod), options)

    def _objects(self, kind: str) -> dict[str, Manifest]:
        items = self.server.request("GET", self._path(kind))["items"]
        return {item["metadata"]["name"]: item for item in items}

    def _path(self, kind: str, name: str = "") -> str:
        return f"/api/v1/namespaces/{self.name}/{kind}/{name}".rstrip("/")


@contextmanager
def _absence_ignored() -> Iterator[None]:
    """Ignore that an object is gone, or that another process has changed it."""
    try:
        yield
    except RefusedError as error:
        if error.code not in _GONE:
            raise


def files_of(secret: Manifest) -> dict[str, str]:
    """Return the files of a secret."""
    return {name: base64.b64decode(text).decode() for name, text in secret["data"].items()}


class _LogPort:
    """The part of a kubelet's port that returns logs. A kube-apiserver reads them there."""

    def __init__(self, logs: dict[str, str]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                _, kind, _, pod, _ = urlsplit(self.path).path.split("/")
                is_known = kind == "containerLogs" and pod in logs
                text = logs.get(pod, "").encode()
                self.send_response(200 if is_known else 404)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer((ADDRESS, 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.NamedTemporaryFile() as file:
            file.write(Authority().key_and_certificate(IPv4Address(ADDRESS)))
            file.flush()
            context.load_cert_chain(file.name)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
