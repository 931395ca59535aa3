"""A stand-in for the API of Kubernetes over TLS: validates each object by the schemas of the API, and answers in its shapes.

`make prove` runs its tests at a kube-apiserver too. What a scheduler and a kubelet would do, tests do: they change the status of pods.
"""

from __future__ import annotations

import base64
import copy
import json
import ssl
import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import kubernetes_validate
import yaml

Manifest = dict[str, Any]
VERSION = "1.37"
TOKEN = "token-of-the-server"
NAMESPACE = "data"
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


class StandInApi:
    """Pods and secrets of one namespace, from `start` to `close`."""

    def __init__(self, context: ssl.SSLContext, certificate: str) -> None:
        self.objects: dict[str, dict[str, Manifest]] = {"pods": {}, "secrets": {}}
        self.logs: dict[str, str] = {}
        self.requests: list[str] = []
        self.is_allowed = True
        self.refusal: tuple[int, str] | None = None
        self.changed = threading.Condition()
        self._events: list[Manifest] = []
        """What watchers of pods get, in order. The resource version of an object is the number of its event."""
        self.closed = False
        self.name = NAMESPACE
        self.driver_account = "default"
        self.stateful_set_uid = "77aa"
        self.certificate = certificate
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                if api.closed:
                    # A client keeps its connections, which outlive the listener.
                    self.close_connection = True
                    return
                length = int(self.headers.get("Content-Length", 0))
                body = json.loads(self.rfile.read(length)) if length else None
                is_known = self.headers.get("Authorization") == f"Bearer {TOKEN}"
                if is_known and self.command == "GET" and "watch=true" in self.path:
                    self._watch()
                    return
                code, reply = (
                    api.handle(self.command, self.path, body) if is_known else _status(401, "Unauthorized")
                )
                text = reply.encode() if isinstance(reply, str) else json.dumps(reply).encode()
                self.send_response(code)
                self.send_header(
                    "Content-Type", "text/plain" if isinstance(reply, str) else "application/json"
                )
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def _watch(self) -> None:
                """Send events as chunks, until the client leaves."""
                # Clients that try a WebSocket first then use this.
                self.send_response(503 if "Upgrade" in self.headers else 200)
                if "Upgrade" in self.headers:
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                self.send_header("Content-Type", "application/json")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                with suppress(OSError):
                    for event in api.events(self.path):
                        line = json.dumps(event).encode() + b"\n"
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))

            do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - names of http.server

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self.closed = True
        self._server.shutdown()
        self._server.server_close()

    def kubeconfig(self, folder: Path, *, server_name: str | None = "headrace") -> Path:
        """Write a kubeconfig file for the server, and return its path. `server_name` is the name in the certificate, None its address."""
        authority = folder / "ca.pem"
        authority.write_text(self.certificate)
        cluster = {"server": self.url, "certificate-authority": str(authority)}
        if server_name is not None:
            cluster["tls-server-name"] = server_name
        file = folder / "kubeconfig"
        file.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "c",
                    "clusters": [{"name": "c", "cluster": cluster}],
                    "users": [{"name": "u", "user": {"token": TOKEN}}],
                    "contexts": [
                        {"name": "c", "context": {"cluster": "c", "user": "u", "namespace": NAMESPACE}}
                    ],
                }
            )
        )
        return file

    def create_pod(self, pod: Manifest) -> Manifest:
        """Create a pod."""
        code, created = self.handle("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", pod)
        assert code == 201, created
        assert isinstance(created, dict)
        return created

    def token(self, _pod: Manifest) -> str:
        """Return the token of a pod's service account."""
        return TOKEN

    def bind(self, pod: str) -> None:
        """Place a pod on a node, as a scheduler does. Without a node, it has no processes that its deletion waits for."""
        with self.changed:
            placed = self.objects["pods"][pod]
            placed["spec"] = {**placed["spec"], "nodeName": "node"}
            self._report("MODIFIED", placed)

    def set_status(self, pod: str, status: Manifest) -> None:
        """Change the status of a pod, as a scheduler or a kubelet does."""
        with self.changed:
            self.objects["pods"][pod]["status"] = status
            self._report("MODIFIED", self.objects["pods"][pod])

    def remove(self, pod: str) -> None:
        """Remove a pod and the objects that it owns, as the garbage collector does."""
        with self.changed:
            removed = self.objects["pods"].pop(pod)
            self._report("DELETED", removed)
            uid = removed["metadata"]["uid"]
            for kind in self.objects.values():
                for name, each in list(kind.items()):
                    if all(owner["uid"] != uid for owner in each["metadata"].get("ownerReferences", ())):
                        continue
                    if kind is self.objects["pods"]:
                        self._delete(each)
                    else:
                        del kind[name]

    def events(self, path: str) -> Iterator[Manifest]:
        """Return the events of the pods that a watch selects, after its resource version."""
        query = urlsplit(path).query
        position = int(parse_qs(query).get("resourceVersion", ["0"])[0])
        while not self.closed:
            with self.changed:
                if len(self._events) == position:
                    self.changed.wait(0.1)
                events, position = self._events[position:], len(self._events)
            for event in events:
                if _selects(query, event["object"]):
                    yield event

    def _report(self, kind: str, pod: Manifest) -> None:
        pod["metadata"]["resourceVersion"] = str(len(self._events) + 1)
        self._events.append({"type": kind, "object": copy.deepcopy(pod)})
        self.changed.notify_all()

    def handle(self, method: str, path: str, body: Manifest | None) -> tuple[int, Manifest | str]:
        parts = urlsplit(path)
        with self.changed:
            self.requests.append(f"{method} {parts.path}")
            self.changed.notify_all()
            if self.refusal is not None:
                return _status(*self.refusal)
            if body is not None and method == "POST":
                try:
                    kubernetes_validate.validate(body, VERSION, strict=True)
                except kubernetes_validate.ValidationError as error:
                    return _status(422, str(error))
            match [method, *parts.path.strip("/").split("/")]:
                case [_, "api", "v1", "namespaces", _, kind, *_] if kind not in self.objects:
                    return _status(403, f"{kind} is forbidden")
                case ["POST", "apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews"]:
                    return 201, {**(body or {}), "metadata": {}, "status": {"allowed": self.is_allowed}}
                case ["POST", "api", "v1", "namespaces", namespace, kind]:
                    return self._create(namespace, kind, body or {})
                case ["GET", "api", "v1", "namespaces", namespace, kind]:
                    items = [each for each in self.objects[kind].values() if _selects(parts.query, each)]
                    version = {"resourceVersion": str(len(self._events))}
                    return 200, {"apiVersion": "v1", "kind": "PodList", "metadata": version, "items": items}
                case ["GET", "api", "v1", "namespaces", namespace, "pods", name, "log"] if (
                    name in self.objects["pods"]
                ):
                    return self._log(name)
                case [_, "api", "v1", "namespaces", namespace, kind, name] if name in self.objects[kind]:
                    current = self.objects[kind][name]
                    if method == "DELETE":
                        expected = (body or {}).get("preconditions", {}).get("uid")
                        if expected not in (None, current["metadata"]["uid"]):
                            return _status(409, "the UID in the precondition does not match")
                        self._delete(current)
                    return 200, current
                case [_, *_, kind, name]:
                    return _status(404, f'{kind} "{name}" not found')
        return _status(405, "the stand-in does not know this request")

    def _delete(self, pod: Manifest) -> None:
        if "nodeName" not in pod["spec"] or pod["status"]["phase"] in ("Failed", "Succeeded"):
            self.remove(pod["metadata"]["name"])
        elif "deletionTimestamp" not in pod["metadata"]:
            pod["metadata"]["deletionTimestamp"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            self._report("MODIFIED", pod)

    def _log(self, pod: str) -> tuple[int, Manifest | str]:
        if "nodeName" not in self.objects["pods"][pod]["spec"]:
            return _status(400, f"pod {pod} does not have a host assigned")
        return 200, self.logs.get(pod, "")

    def _create(self, namespace: str, kind: str, body: Manifest) -> tuple[int, Manifest]:
        name = body["metadata"]["name"]
        if body["metadata"].setdefault("namespace", namespace) != namespace:
            return _status(400, "the namespace of the object does not match that of the request")
        if name in self.objects[kind]:
            return _status(409, f'{kind} "{name}" already exists')
        created = {**body, "metadata": {**body["metadata"], "uid": str(uuid.uuid4()), "resourceVersion": "1"}}
        if kind == "secrets":
            texts = created.pop("stringData", {})
            encoded = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
            created["data"] = {**created.get("data", {}), **encoded}
        if kind == "pods":
            created["spec"] = _with_account(created["spec"])
            created["status"] = {"phase": "Pending", "qosClass": "Burstable"}
            self._report("ADDED", created)
        self.objects[kind][name] = created
        return 201, created


def _with_account(spec: Manifest) -> Manifest:
    """Return the spec of a pod with the volume that contains the token of its service account, as the API adds it."""
    if spec.get("automountServiceAccountToken") is False:
        return spec
    mount = {"name": "kube-api-access", "mountPath": ACCOUNT, "readOnly": True}
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]
    containers = [{**each, "volumeMounts": [*each["volumeMounts"], mount]} for each in spec["containers"]]
    volume = {"name": mount["name"], "projected": {"sources": sources}}
    return {**spec, "containers": containers, "volumes": [*spec["volumes"], volume]}


def _selects(query: str, each: Manifest) -> bool:
    """True if an object has the labels and the name that the query of a request selects."""
    values, metadata = parse_qs(query), each["metadata"]
    name = values.get("fieldSelector", [""])[0].removeprefix("metadata.name=")
    if name not in ("", metadata["name"]):
        return False
    for part in filter(None, values.get("labelSelector", [""])[0].split(",")):
        label, equals, value = part.partition("=")
        assert equals, "the stand-in knows the operators = and != only"
        if (metadata["labels"].get(label.rstrip("!")) == value) is label.endswith("!"):
            return False
    return True


def _status(code: int, message: str) -> tuple[int, Manifest]:
    return code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}
