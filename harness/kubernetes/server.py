"""The process of a kube-apiserver, and requests to it."""

from __future__ import annotations

import secrets
import ssl
import tempfile
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import httpx
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from harness.authority import Authority
from harness.guarded_server import GuardedServer
from harness.kubernetes.program import program
from harness.patience import PATIENCE_S
from headrace.runtime.ports import free_port

Manifest = dict[str, Any]

ADDRESS = "127.0.0.1"
_ISSUER = "https://kubernetes.default.svc"
_TOKEN_S = 3600
_MERGE = "application/merge-patch+json"


class RefusedError(Exception):
    """An answer of the API that is an error, with its code."""

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__(f"{answer.status_code} {answer.text[:2000]}")
        self.code = answer.status_code


class KubernetesServer(GuardedServer):
    """A kube-apiserver with TLS, RBAC, tokens of service accounts, and the admission plugins that are on by default; a context manager.

    Its storage ends with it. Each request of this class is one of the administrator, unless it has another token.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, grace_s=20)
        self._authority = Authority()
        self._storage: tempfile.TemporaryDirectory[str] | None = None
        self._client: httpx.Client
        self._paths: dict[tuple[str, str], str] = {}
        self.warnings: list[str] = []
        """What the API has warned of so far, such as deprecated fields and pods that a standard would refuse."""
        self.administrator = secrets.token_urlsafe(32)
        self.url = f"https://{ADDRESS}:{free_port()}"

    @property
    def certificate(self) -> str:
        """The certificate that clients trust."""
        return self._authority.pem

    def stop(self) -> None:
        """End the process, and with it every connection."""
        super().stop()
        if self._storage is not None:
            self._client.close()
            self._storage.cleanup()
            self._storage = None

    def kubeconfig(self, file: Path, token: str, namespace: str = "default") -> Path:
        """Write a kubeconfig file with a token, and return its path."""
        authority = file.with_suffix(".ca.pem")
        authority.write_text(self.certificate)
        cluster = {"server": self.url, "certificate-authority": str(authority)}
        context = {"cluster": "c", "user": "u", "namespace": namespace}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": context}],
        }
        file.write_text(yaml.safe_dump(content))
        return file

    def request(self, method: str, path: str, body: Manifest | None = None, **options: Any) -> Any:
        """Return the body of an answer. Raises RefusedError for an error. `options`: `token`, and parameters of the query."""
        headers = {"Authorization": f"Bearer {options.pop('token', self.administrator)}"}
        if method == "PATCH":
            headers["Content-Type"] = _MERGE
        answer = self._client.request(method, path, json=body, params=options, headers=headers)
        self.warnings += answer.headers.get_list("Warning")
        if answer.is_error:
            raise RefusedError(answer)
        is_json = answer.headers.get("Content-Type", "").startswith("application/json")
        return answer.json() if is_json else answer.text

    def create(self, manifest: Manifest, namespace: str, **options: Any) -> Manifest:
        """Create an object of any kind. Fields that the API does not know are an error, as with kubectl."""
        version, kind = manifest["apiVersion"], manifest["kind"]
        path = self._path(version, kind).format(namespace=namespace)
        created: Manifest = self.request("POST", path, manifest, fieldValidation="Strict", **options)
        return created

    def token(self, namespace: str, account: str, pod: Manifest | None = None) -> str:
        """Return a token of a service account. A token for a pod is valid while the pod exists, like that of each container."""
        spec: Manifest = {"audiences": [_ISSUER], "expirationSeconds": _TOKEN_S}
        if pod is not None:
            names = {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", **names}
        answer = self.request(
            "POST",
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec},
        )
        return str(answer["status"]["token"])

    def _command(self) -> list[str]:
        """Return the command line; raises NotCompiledError."""
        command = program()
        # Names of sockets are short, and pytest's folders may not be.
        self._storage = tempfile.TemporaryDirectory(prefix="etcd-")
        context = ssl.create_default_context(cadata=self.certificate)
        self._client = httpx.Client(base_url=self.url, verify=context, timeout=PATIENCE_S, trust_env=False)
        kubeconfig = self.kubeconfig(self._folder / "administrator", self.administrator)
        return [str(command), self._storage.name, str(kubeconfig), *self._arguments()]

    def _arguments(self) -> list[str]:
        certificate, key = self._folder / "api.pem", self._folder / "accounts.pem"
        certificate.write_bytes(self._authority.key_and_certificate(IPv4Address(ADDRESS)))
        private = ec.generate_private_key(ec.SECP256R1())
        key.write_bytes(
            private.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
        tokens = self._folder / "tokens.csv"
        tokens.write_text(f'{self.administrator},administrator,1,"system:masters"\n')
        return [
            f"--bind-address={ADDRESS}",
            f"--secure-port={self.url.rpartition(':')[2]}",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={certificate}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            f"--service-account-issuer={_ISSUER}",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            # An address of loopback is none of a service.
            "--endpoint-reconciler-type=none",
        ]

    def _is_ready(self) -> bool:
        """True if the API is ready, with all objects that every cluster has."""
        try:
            self.request("GET", "/readyz")
            self.request("GET", "/api/v1/namespaces/default")
        except (httpx.TransportError, RefusedError):
            return False
        return True

    def _path(self, version: str, kind: str) -> str:
        if (version, kind) not in self._paths:
            root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
            for resource in self.request("GET", root)["resources"]:
                within = "/namespaces/{namespace}" if resource["namespaced"] else ""
                if "/" not in resource["name"]:
                    self._paths[version, resource["kind"]] = f"{root}{within}/{resource['name']}"
        return self._paths[version, kind]
