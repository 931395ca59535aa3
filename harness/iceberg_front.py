"""Front of the tests' catalog and bucket: OAuth, vended keys, and every refusal."""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs

import httpx

from harness.patience import PATIENCE_S

CLIENT, SECRET = "headrace", 'it\'s "hunter2"; DROP'
VENDED = "VENDEDKEYID"
_TOKEN_S = 5
_GRACE_S = 25
"""A token is told to live for five seconds; one that was not renewed for long is refused."""
_LEFT_OUT = {"host", "connection", "transfer-encoding", "content-encoding", "content-length", "keep-alive"}
_TABLE = re.compile(r"/v1/namespaces/[^/]+/tables(/[^/]+)?\Z")
_KEY = re.compile(r"Credential=([^/]+)/\d+/[^/]+/(?!sts)")
Answer = tuple[int, Mapping[str, str], bytes]


class CatalogFront:
    """REST catalog at `catalog` that requires tokens and vends keys, and a bucket at `bucket`; a context manager.

    `refused` returns the status that refuses a request, by method and path. `tokens` are the issued tokens, and `keys` the access keys of
    requests to the bucket.
    """

    def __init__(self, catalog: str, s3: str, vended: Mapping[str, str]) -> None:
        self.refused: Callable[[str, str], int | None] = lambda _method, _path: None
        self.tokens: dict[str, float] = {}
        self.keys: set[str] = set()
        self._vended = dict(vended)
        self._catalog = _Proxy(catalog, self._of_catalog)
        self._s3 = _Proxy(s3, self._of_s3)
        self.catalog, self.bucket = self._catalog.url, self._s3.url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._catalog.close()
        self._s3.close()

    def _of_catalog(
        self, handler: BaseHTTPRequestHandler, body: bytes, pass_on: Callable[[], Answer]
    ) -> Answer:
        if status := self.refused(handler.command, handler.path):
            return _error(status, "ForbiddenException" if status == 403 else "ServiceUnavailableException")
        if handler.path.endswith("/oauth/tokens"):
            return self._token(parse_qs(body.decode()))
        given = (handler.headers["Authorization"] or "").removeprefix("Bearer ")
        if time.monotonic() > self.tokens.get(given, 0):
            return _error(401, "NotAuthorizedException")
        status, headers, content = pass_on()
        vends = handler.headers["X-Iceberg-Access-Delegation"] == "vended-credentials"
        if vends and status == 200 and _TABLE.match(handler.path.partition("?")[0]):
            answer = json.loads(content)
            if "metadata" in answer:
                content = json.dumps(
                    {**answer, "config": {**answer.get("config", {}), **self._vended}}
                ).encode()
        return status, headers, content

    def _token(self, form: Mapping[str, list[str]]) -> Answer:
        if form["grant_type"] == ["client_credentials"]:
            known = form.get("client_id") == [CLIENT] and form.get("client_secret") == [SECRET]
        else:
            known = form.get("subject_token", [""])[0] in self.tokens
        if not known:
            return 401, {}, b'{"error": "invalid_client"}'
        token = str(uuid.uuid4())
        self.tokens[token] = time.monotonic() + _TOKEN_S + _GRACE_S
        kind = "urn:ietf:params:oauth:token-type:access_token"
        granted = {
            "access_token": token,
            "token_type": "bearer",
            "expires_in": _TOKEN_S,
            "issued_token_type": kind,
        }
        return 200, {"Content-Type": "application/json"}, json.dumps(granted).encode()

    def _of_s3(self, handler: BaseHTTPRequestHandler, _body: bytes, pass_on: Callable[[], Answer]) -> Answer:
        authorization = handler.headers["Authorization"]
        self.keys |= set(_KEY.findall(authorization)) if authorization else {"nobody"}
        if status := self.refused(handler.command, handler.path):
            code = "AccessDenied" if status == 403 else "SlowDown"
            return status, {}, f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()
        return pass_on()


class _Proxy:
    def __init__(
        self, behind: str, answer: Callable[[BaseHTTPRequestHandler, bytes, Callable[[], Answer]], Answer]
    ) -> None:
        client = httpx.Client(timeout=PATIENCE_S)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name: text for name, text in self.headers.items() if name.lower() != "host"}

                def pass_on() -> Answer:
                    passed = client.request(self.command, behind + self.path, content=body, headers=headers)
                    return passed.status_code, passed.headers, passed.content

                status, fields, content = answer(self, body, pass_on)
                self.send_response(status)
                for name, text in fields.items():
                    if name.lower() not in _LEFT_OUT:
                        self.send_header(name, text)
                length = fields.get("content-length", "0") if self.command == "HEAD" else str(len(content))
                self.send_header("Content-Length", length)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = handle_one  # noqa: N815

            def log_message(self, format: str, *args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._client = client
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._client.close()


def _error(status: int, kind: str) -> Answer:
    body: dict[str, Any] = {"error": {"message": "no", "type": kind, "code": status}}
    return status, {"Content-Type": "application/json"}, json.dumps(body).encode()
