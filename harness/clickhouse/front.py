"""ClickHouse's HTTP interface over a chdb session: the part that clients of tables need.

    python -m harness.clickhouse.front FOLDER CERTIFICATE PORT TLS_PORT

A statement is the text of `query`, or the body; with both the body is the data of an INSERT. Of the other parameters of a URL `database`
is where names are looked for, `param_…` the statement's own, and the rest settings.
"""

from __future__ import annotations

import base64
import contextlib
import hmac
import re
import ssl
import sys
import tempfile
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from chdb.session import Session

from harness.clickhouse import PASSWORD, USER

_OF_HTTP = frozenset(("query", "database", "default_format", "wait_end_of_query", "buffer_size"))
_INSERTED = re.compile(r"\s+FORMAT\s+(\w+)\s*\Z", re.IGNORECASE)
_CODE = re.compile(r"Code: (\d+)\.")
_AUTHENTICATION_FAILED, _UNKNOWN_SETTING = 516, 115
_STATUS = {_AUTHENTICATION_FAILED: 403, 497: 403, 60: 404, 81: 404, 46: 404, 47: 404}
_USER_ERRORS = frozenset((6, 26, 27, 36, 38, 41, 53, 57, 62, 70, 321, 349))


class Engine:
    """A chdb session, which runs one statement at a time."""

    def __init__(self, folder: str) -> None:
        self._session = Session(folder)
        self._session.query("CREATE DATABASE IF NOT EXISTS default")
        self._turn = threading.Lock()

    def run(self, statement: str, asked: dict[str, str], data: bytes | None) -> bytes:
        """Run a statement, and return bytes of its format; raises RuntimeError with ClickHouse's text."""
        settings = {name: value for name, value in asked.items() if name not in _OF_HTTP}
        with self._turn:
            self._query(f"USE {_name(asked.get('database', 'default'))}")
            for name, value in settings.items():
                self._query(f"SET {_word(name)} = {_text(value)}")
            try:
                if data is not None:
                    return self._insert(statement, data)
                return self._query(statement, asked.get("default_format", "TabSeparated"))
            finally:
                for name in settings:
                    if not name.startswith("param_"):
                        self._query(f"SET {_word(name)} = DEFAULT")

    def _insert(self, statement: str, data: bytes) -> bytes:
        form = _INSERTED.search(statement)
        assert form is not None, statement
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            source = f"FROM INFILE {_text(file.name)} COMPRESSION 'none' FORMAT {form[1]}"
            return self._query(f"{statement[: form.start()]} {source}")

    def _query(self, statement: str, form: str = "TabSeparated") -> bytes:
        answer = self._session.query(statement, form)
        return bytes(answer.bytes()) if answer is not None else b""


class Front(BaseHTTPRequestHandler):
    """Handler of a connection's requests, one after the other."""

    protocol_version = "HTTP/1.1"
    engine: Engine

    def do_GET(self) -> None:
        if urlsplit(self.path).path == "/ping":
            self._answer(200, b"Ok.\n")
        else:
            self._run(None)

    def do_POST(self) -> None:
        self._run(self._body())

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""

    def _run(self, body: bytes | None) -> None:
        if not self._is_user():
            text = f"Code: {_AUTHENTICATION_FAILED}. DB::Exception: {self._user()[0]}: Authentication failed: password is incorrect, or "
            self._refuse(text + "there is no user with such name. (AUTHENTICATION_FAILED) (version 26.9.2.1)")
            return
        asked = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        statement, data = asked.get("query"), body
        if statement is None:
            statement, data = (body or b"").decode(), None
        try:
            answer = self.engine.run(statement, asked, data)
        except RuntimeError as error:
            self._refuse(str(error))
        else:
            self._answer(200, answer)

    def _user(self) -> tuple[str, str]:
        kind, _, text = self.headers.get("Authorization", "").partition(" ")
        if kind != "Basic":
            return "default", ""
        user, _, password = base64.b64decode(text).decode().partition(":")
        return user, password

    def _is_user(self) -> bool:
        user, password = self._user()
        return user == USER and hmac.compare_digest(password.encode(), PASSWORD.encode())

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _refuse(self, text: str) -> None:
        match = _CODE.search(text)
        code = int(match[1]) if match else 1001
        status = _STATUS.get(code, 400 if code in _USER_ERRORS else 500)
        self._answer(status, text.encode(), {"X-ClickHouse-Exception-Code": str(code)})

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Length": str(len(body)),
            "X-ClickHouse-Query-Id": str(uuid.uuid4()),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    """Server that handles each connection in a thread; with `tls` it accepts only TLS."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port: int, handler: type[Front], tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", port), handler)
        self._tls = tls

    def finish_request(self, request: Any, client_address: Any) -> None:
        # A client that disconnects, or does not trust the certificate, is not an error of the front.
        with contextlib.suppress(OSError):
            if self._tls is not None:
                request = self._tls.wrap_socket(request, server_side=True)
            super().finish_request(request, client_address)


def _name(name: str) -> str:
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def _text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _word(name: str) -> str:
    if not re.fullmatch(r"\w+", name):
        raise RuntimeError(
            f"Code: {_UNKNOWN_SETTING}. DB::Exception: Setting {name} is unknown. (UNKNOWN_SETTING)"
        )
    return name


def main(folder: str, certificate: str, port: str, tls_port: str) -> None:
    """Serve until the process is killed; print `ready PORT TLS_PORT`."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    handler = type("Handler", (Front,), {"engine": Engine(folder)})
    servers = [Server(int(port), handler), Server(int(tls_port), handler, tls)]
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    threading.Thread(target=servers[1].serve_forever, daemon=True).start()
    servers[0].serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
