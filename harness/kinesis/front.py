"""Front of a replacement for Kinesis that can refuse requests, and speak TLS."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import httpx

from harness.patience import PATIENCE_S

Message = dict[str, Any]
PassOn = Callable[[Message], tuple[int, Message]]
Answer = Callable[[str, Message, PassOn], tuple[int, Message]]
"""Of an operation's name and its request: the answer, for which the request, or some of it, can be passed on."""


class KinesisFront:
    """Passes requests on to the server at `behind`; a context manager. `answer`, which may be changed, answers in its place.

    `certificate` is a file with a key and a certificate: with it the front speaks TLS.
    """

    def __init__(self, behind: str, *, certificate: Path | None = None) -> None:
        front = self
        self.answer: Answer | None = None
        # One for all requests: each client of httpx reads the certificates of all authorities.
        self._client = client = httpx.Client(timeout=PATIENCE_S, trust_env=False)

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name: self.headers[name] for name in _PASSED if name in self.headers}

                def pass_on(request: Message) -> tuple[int, Message]:
                    answer = client.post(behind + self.path, content=json.dumps(request), headers=headers)
                    return answer.status_code, answer.json() if answer.content else {}

                operation = self.headers["X-Amz-Target"].rpartition(".")[2]
                request = json.loads(body)
                answered = front.answer
                status, answer = (
                    answered(operation, request, pass_on) if answered is not None else pass_on(request)
                )
                content = json.dumps(answer).encode()
                # A query that is stopped does not wait for its answer.
                with suppress(ConnectionError):
                    self.send_response(status)
                    self.send_header("Content-Type", "application/x-amz-json-1.1")
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self._scheme = "https"

    def uri(self, host: str = "127.0.0.1") -> str:
        """Return the address for 'uris' of a store, by one of its names."""
        return f"{self._scheme}://{host}:{self._server.server_address[1]}"

    def refuse(self, operation: str, code: str) -> None:
        """Refuse the requests of an operation from now on."""
        self.answer = refusing(operation, code)

    def pass_on(self) -> None:
        """Pass on all requests from now on."""
        self.answer = None

    def __enter__(self) -> Self:
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._client.close()


_PASSED = ("X-Amz-Target", "Content-Type", "Authorization", "X-Amz-Date")


def refusing(operation: str, code: str, *, times: int = 1_000_000) -> Answer:
    """Refuses the next requests of an operation with an error of AWS's, and passes on the others."""
    left = iter(range(times))

    def answer(asked: str, request: Message, pass_on: PassOn) -> tuple[int, Message]:
        if asked == operation and next(left, None) is not None:
            return 400, {"__type": code, "message": f"{operation} is refused"}
        return pass_on(request)

    return answer
