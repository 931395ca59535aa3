"""An OAuth 2.0 token endpoint over HTTPS, for client credentials: it signs tokens that a broker can verify by its published key."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs

from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from harness.authority import Authority

CLIENT, SECRET = "service", "s3cr:et; \"quoted\" = 'yes'"
AUDIENCE = "kafka"
SCOPE = "records"


class Issuer:
    """Issuer of tokens for `CLIENT` and `AUDIENCE` with a lifetime in seconds; its key is in `keys`, as a JWKS file. A context manager.

    `asked` counts the issued tokens; `lifetime_s` may change.
    """

    def __init__(self, folder: Path, authority: Authority, *, lifetime_s: int = 3600) -> None:
        self.keys = folder / "jwks.json"
        self.asked = 0
        self.lifetime_s = lifetime_s
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        public = self._key.public_key().public_numbers()
        jwk = {
            "kty": "RSA",
            "alg": "RS256",
            "use": "sig",
            "kid": "1",
            "n": _number(public.n),
            "e": _number(public.e),
        }
        self.keys.write_text(json.dumps({"keys": [jwk]}))
        pem = folder / "issuer.pem"
        pem.write_bytes(authority.key_and_certificate("localhost"))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://localhost:{self._server.server_port}/token"

    def token(self) -> str:
        """A signed JWT."""
        self.asked += 1
        now = int(time.time())
        claims = {"sub": CLIENT, "aud": AUDIENCE, "iss": self.url, "iat": now, "exp": now + self.lifetime_s}
        signed = ".".join(_text(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": "1"}, claims))
        return f"{signed}.{_text(self._key.sign(signed.encode(), padding.PKCS1v15(), SHA256()))}"

    def answer(self, authorization: str, form: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        """Status and body."""
        expected = "Basic " + base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if authorization != expected:
            return 401, {"error": "invalid_client", "error_description": "what else the endpoint says"}
        if form != {"grant_type": ["client_credentials"], "scope": [SCOPE]}:
            return 400, {"error": "invalid_scope"}
        return 200, {"access_token": self.token(), "expires_in": self.lifetime_s, "token_type": "Bearer"}

    def __enter__(self) -> Self:
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(issuer: Issuer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            status, body = issuer.answer(self.headers["Authorization"], form)
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_arguments: object) -> None:
            """Not to standard error."""

    return Handler


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _number(value: int) -> str:
    return _text(value.to_bytes((value.bit_length() + 7) // 8))
