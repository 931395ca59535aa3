"""Front of a schema registry: it requires credentials, supports TLS, and can misbehave on request."""

from __future__ import annotations

import base64
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from harness.patience import PATIENCE_S

Answer = tuple[int, dict[str, str], bytes]


class RegistryFront:
    """Proxy that passes requests with the right `Authorization` to `behind`, and counts requests.

    `answer` replaces the answer if it is set. `certificate` is a file with a key and a certificate, and `clients` the authority whose
    certificates clients must show.
    """

    def __init__(
        self,
        behind: str = "",
        *,
        authorization: str | None = None,
        certificate: Path | None = None,
        clients: str | None = None,
        answer: Callable[[str], Answer] | None = None,
    ) -> None:
        front = self
        self._client = client = httpx.Client(timeout=PATIENCE_S, trust_env=False)
        self.paths: list[str] = []
        self.hosts: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                front.paths.append(self.path)
                front.hosts.append(self.headers["Host"])
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if authorization is not None and self.headers.get("Authorization") != authorization:
                    status, headers, content = 401, {}, b'{"error_code":401,"message":"who?"}'
                elif answer is not None:
                    status, headers, content = answer(self.path)
                else:
                    passed = client.request(
                        self.command, behind + self.path, content=body, headers=_kept(self)
                    )
                    status, headers, content = passed.status_code, {}, passed.content
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_GET  # noqa: N815

            def log_message(self, format: str, *args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            if clients is not None:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(cadata=clients)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self._scheme = "https"

    def url(self, host: str = "127.0.0.1") -> str:
        """Its address by one of its names."""
        return f"{self._scheme}://{host}:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Answer no more; may be called again."""
        self._server.shutdown()
        self._server.server_close()
        self._client.close()
        self._thread.join()


def basic(user: str, password: str) -> str:
    """The header of basic authentication."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _kept(handler: BaseHTTPRequestHandler) -> dict[str, str]:
    return {
        name: value for name, value in handler.headers.items() if name.lower() in ("content-type", "accept")
    }
