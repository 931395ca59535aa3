"""The door over the real session layer, in a thread with a loop of its own: its clients block."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness.session import Session, open_session
from headrace.catalog.audit import AuditEntry
from headrace.catalog.objects import Principal, User
from headrace.core.settings import Settings
from headrace.planner.physical import Column
from headrace.server.connections import Connections
from headrace.server.metrics import Metrics
from headrace.server.ports import BoundedRunner, ServerParts
from headrace.server.postgres.door import PostgresDoor
from headrace.session import StatementService

TOKEN = "hrt_of_the_tests"
PASSWORD = "correct horse battery"
PUBLIC_TOKEN = "hrt_of_public"
ROWS = 3
VIEW = "Best"


@dataclass
class Endpoint:
    """A door on loopback, and what the administrator signs in with."""

    port: int
    token: str
    database: str

    @property
    def address(self) -> str:
        """The connection string of libpq, as the administrator."""
        return f"host=127.0.0.1 port={self.port} user=admin password={self.token} dbname={self.database}"


@dataclass
class Served(Endpoint):
    """A door that runs in this process, and the session whose catalog it shows."""

    session: Session
    loop: asyncio.AbstractEventLoop
    audited: list[AuditEntry] = field(default_factory=list)


def _principal(session: Session, secret: str) -> Principal | None:
    if secret == PUBLIC_TOKEN:
        return Principal("guest", ("public",), "public", credential="token guest")
    return session.catalog.authenticate(secret)


def _prepare(session: Session) -> None:
    """Fill the view, and give the administrator a token and a password."""
    catalog = session.catalog
    catalog.ensure_administrator(TOKEN)
    user = catalog.user("admin")
    assert isinstance(user, User)
    catalog.set_password(user, PASSWORD)
    view = next(relation for relation in catalog.relations("shop") if relation.name.name == VIEW)
    views = session.engine.views
    views.create(view.id, [Column(name="n", type="BIGINT")], ["n"])
    rows = ", ".join(f"({number})" for number in range(1, ROWS + 1))
    views._database.execute(f'INSERT INTO "{view.id}" VALUES {rows}')  # type: ignore[attr-defined] # DuckDB's


@contextmanager
def serving(
    folder: Path,
    tls: ssl.SSLContext | None = None,
    *,
    runner: Callable[[StatementService], BoundedRunner] = lambda service: service,
    **settings: object,
) -> Iterator[Served]:
    """Serve on a free port of loopback while the context is open. `runner` may run some statements in place of the service."""
    started: list[Served | BaseException] = []
    ready, over = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with open_session(folder, postgres_scram=settings.get("postgres_scram", False)) as session:
            _prepare(session)
            audited: list[AuditEntry] = []
            parts = ServerParts(
                Settings(data_dir=folder, **settings),  # type: ignore[arg-type] # by name
                session.service,
                lambda secret: _principal(session, secret),
                accounts=session.catalog,
                audit=audited.append,
            )
            with socket.create_server(("127.0.0.1", 0)) as listener:
                door = PostgresDoor(parts, runner(session.service), Metrics(tuple))
                async with door.listening(listener, tls, Connections()):
                    port = listener.getsockname()[1]
                    started.append(Served(port, TOKEN, "shop", session, asyncio.get_running_loop(), audited))
                    ready.set()
                    await over.wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:  # noqa: BLE001 - raised again below
            started.append(error)
        ready.set()

    thread = threading.Thread(target=run, name="door")
    thread.start()
    ready.wait()
    served = started[0]
    if isinstance(served, BaseException):
        raise served
    try:
        yield served
    finally:
        served.loop.call_soon_threadsafe(over.set)
        thread.join()
        if len(started) > 1:
            failure = started[1]
            assert isinstance(failure, BaseException)
            raise failure
