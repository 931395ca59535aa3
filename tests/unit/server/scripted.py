"""The real application over scripted statements: the parts that fixtures create and tests use."""

from __future__ import annotations

import asyncio
import ssl
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import uvicorn
from fastapi import FastAPI

from headrace.catalog.access import Privilege
from headrace.catalog.objects import Principal, Relation
from headrace.core.context import SessionContext
from headrace.core.errors import Diagnostic, HeadraceError
from headrace.core.resultset import Cell, LiveRows, ResultColumn, ResultSet
from headrace.core.types import BIGINT, VARCHAR
from headrace.server.connections import Connections
from headrace.session.checking import Checked
from headrace.statements.completion import Candidate, Completion
from headrace.statements.desired_state import Plan, PlanStep
from headrace.statements.language import Language, PropertyFacts

ORGANIZATION = str(uuid.uuid4())
TOKENS = {
    "good-token": Principal("admin", ("sysadmin",), "sysadmin"),
    "other-token": Principal("other", ("public",), "public"),
}


FILE = b"PK\0"
"""What there is to download, as the function source u."""


def download(_principal: Principal, kind: str, _organization: str, name: str) -> bytes | None:
    """The file of u, and no other."""
    return FILE if (kind, name) == ("function_source", "u") else None


class ScriptedStream:
    """A live result over a queue of one batch: a reader that does not read is felt at once by `put`."""

    def __init__(self) -> None:
        self.query_id = str(uuid.uuid4())
        self.columns = (ResultColumn("id", BIGINT, nullable=False), ResultColumn("name", VARCHAR))
        self.changelog_key: tuple[str, ...] | None = None
        self.message: str | None = None
        self.closed = asyncio.Event()
        self.running = asyncio.Event()
        self.refusal: HeadraceError | None = None
        self.lacking: str | None = None
        self._batches: asyncio.Queue[LiveRows | HeadraceError | None] = asyncio.Queue(1)

    async def put(self, *rows: list[Cell], kinds: list[str] | None = None) -> None:
        await self._batches.put(LiveRows(list(rows), kinds))

    async def finish(self, error: HeadraceError | None = None) -> None:
        await self._batches.put(error)

    def lost(self) -> str | None:
        return self.lacking

    async def started(self) -> None:
        await self.running.wait()
        if self.refusal:
            raise self.refusal

    async def __aiter__(self) -> AsyncIterator[LiveRows]:
        while (batch := await self._batches.get()) is not None:
            if isinstance(batch, HeadraceError):
                raise batch
            yield batch

    async def close(self) -> None:
        self.closed.set()


@dataclass(frozen=True)
class ScriptedExecuted:
    statement_ids: tuple[str, ...]
    outcome: ResultSet | ScriptedStream
    context: SessionContext


Step = Callable[[], Awaitable[ResultSet | ScriptedStream]]


@dataclass
class ScriptedStatements:
    """Runs what the test put under a text; remembers the contexts that it was asked with."""

    steps: dict[str, Step] = field(default_factory=dict)
    contexts: list[SessionContext] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    files: list[dict[str, bytes]] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    endings: dict[Principal, str] = field(default_factory=dict)
    """Whose token is good no longer, and why."""
    views: list[Relation] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    plan_steps: list[PlanStep] = field(default_factory=list)
    privileges: set[Privilege] = field(default_factory=set)

    def answer(
        self, text: str, outcome: ResultSet | ScriptedStream | Exception, *, after_s: float = 0
    ) -> None:
        async def step() -> ResultSet | ScriptedStream:
            await asyncio.sleep(after_s)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        self.steps[text] = step

    async def execute(
        self, text: str, *, principal: Principal, context: SessionContext, files: Mapping[str, bytes]
    ) -> ScriptedExecuted:
        self.texts.append(text)
        self.files.append(dict(files))
        self.contexts.append(context)
        outcome = await self.steps[text]() if text in self.steps else ResultSet()
        return ScriptedExecuted((str(uuid.uuid4()),), outcome, self.settled(context, principal))

    async def check(
        self, text: str, *, principal: Principal, context: SessionContext, files: Mapping[str, bytes]
    ) -> Checked:
        await self.execute(text, principal=principal, context=context, files=files)
        return Checked(tuple(self.diagnostics))

    async def plan(
        self, text: str, *, principal: Principal, context: SessionContext, files: Mapping[str, bytes]
    ) -> Plan:
        await self.execute(text, principal=principal, context=context, files=files)
        return Plan(tuple(self.plan_steps), tuple(self.diagnostics))

    async def complete(
        self, text: str, offset: int, *, principal: Principal, context: SessionContext
    ) -> Completion:
        await self.execute(text, principal=principal, context=context, files={})
        candidates = [item for item in self.candidates if item.label.startswith(text[:offset].split(" ")[-1])]
        return Completion(offset - len(text[:offset].split(" ")[-1]), offset, tuple(candidates))

    async def language(self) -> Language:
        return Language(
            ("SELECT", "FROM"),
            ("SELECT",),
            (),
            ("BIGINT",),
            ("KAFKA",),
            (PropertyFacts("uris", ("CREATE STORE",), "addresses"),),
        )

    def readable_views(self, principal: Principal, context: SessionContext) -> list[Relation]:  # noqa: ARG002
        return self.views

    def holds(
        self,
        privilege: Privilege,
        principal: Principal,  # noqa: ARG002
        context: SessionContext,  # noqa: ARG002
    ) -> bool:
        return privilege in self.privileges

    def settled(self, context: SessionContext, principal: Principal) -> SessionContext:
        return replace(context, organization_id=ORGANIZATION, role=context.role or principal.default_role)


@asynccontextmanager
async def serving(
    app: FastAPI, port: int, tls: ssl.SSLContext | None = None
) -> AsyncIterator[uvicorn.Server]:
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            port=port,
            **Connections().options(tls),
            ws_per_message_deflate=False,
            proxy_headers=False,
            log_config=None,
            timeout_graceful_shutdown=1,
        )
    )
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield server
    finally:
        server.should_exit = True
        await task
