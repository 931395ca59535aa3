"""Inner interfaces that the doors use, as protocols: `session.StatementService` and `engine.results.ResultChannel` implement them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from headrace.catalog.access import Privilege
from headrace.catalog.audit import AuditEntry
from headrace.catalog.changes import Change
from headrace.catalog.objects import ApiToken, Principal, Relation, User
from headrace.catalog.scram import Verifiers
from headrace.catalog.single_sign_on import Admitted
from headrace.catalog.state import CatalogState
from headrace.catalog.worksheets import Saved, WorksheetContent
from headrace.core.context import SessionContext
from headrace.core.resultset import LiveRows, ResultColumn, ResultSet
from headrace.core.settings import Settings
from headrace.core.signals import Signal
from headrace.server.throttle import Attempts
from headrace.server.turns import Turns
from headrace.session.checking import Checked
from headrace.sql.ast import Statement
from headrace.statements.base import Execution
from headrace.statements.completion import Completion
from headrace.statements.desired_state import Plan
from headrace.statements.language import Language

T = TypeVar("T")


class LiveResult(Protocol):
    """The rows of a running interactive query, for one reader."""

    @property
    def query_id(self) -> str:
        """The running query."""
        ...

    @property
    def columns(self) -> tuple[ResultColumn, ...]:
        """The columns of every row."""
        ...

    @property
    def changelog_key(self) -> tuple[str, ...] | None:
        """The key columns of a changelog's rows; None when rows are only added."""
        ...

    @property
    def message(self) -> str | None:
        """The message for a reader who sees no rows; None if every record is read."""
        ...

    @property
    def lost(self) -> Callable[[], str | None]:
        """A function that returns the privilege for this read that the reader's role has lost, None if it lost none; it reads memory
        only."""
        ...

    async def started(self) -> None:
        """Return once the query really runs; raises the HeadraceError that it ended with before that."""
        ...

    def __aiter__(self) -> AsyncIterator[LiveRows]:
        """Yield batches of rows; raises the HeadraceError that ended the query, after the rows before it."""
        ...

    async def close(self) -> None:
        """End the query; closing twice does nothing."""
        ...


class Executed(Protocol):
    """Outcome of a text: one id for each statement, the last outcome, and the context after it."""

    @property
    def statement_ids(self) -> tuple[str, ...]:
        """The statements' ids, UUIDs in order."""
        ...

    @property
    def outcome(self) -> ResultSet | LiveResult:
        """A bounded result, or rows as they come."""
        ...

    @property
    def context(self) -> SessionContext:
        """The session's names after the last statement."""
        ...


class StatementRunner(Protocol):
    """Runs the statements of a text."""

    async def execute(
        self, text: str, *, principal: Principal, context: SessionContext, files: Mapping[str, bytes]
    ) -> Executed:
        """Run `text`, which came with `files`, as `principal`; raises HeadraceError."""
        ...

    async def check(
        self, text: str, *, principal: Principal, context: SessionContext, files: Mapping[str, bytes]
    ) -> Checked:
        """Return the statements of `text`, which is not run, and their errors; raises HeadraceError for `context`."""
        ...

    async def plan(
        self, text: str, *, principal: Principal, context: SessionContext, files: Mapping[str, bytes]
    ) -> Plan:
        """Return the steps to the state that `text` describes, which are not run; raises HeadraceError for `context`."""
        ...

    async def complete(
        self, text: str, offset: int, *, principal: Principal, context: SessionContext
    ) -> Completion:
        """Return what can be typed at `offset` of `text`; raises HeadraceError for `context`."""
        ...

    async def language(self) -> Language:
        """Return the language of this version."""
        ...

    def settled(self, context: SessionContext, principal: Principal) -> SessionContext:
        """Return the complete `context` for an answer, without names of missing objects."""
        ...

    def readable_views(self, principal: Principal, context: SessionContext) -> list[Relation]:
        """Return the materialized views that the role of `context` may SELECT, by name; raises HeadraceError for `context`."""
        ...

    def holds(self, privilege: Privilege, principal: Principal, context: SessionContext) -> bool:
        """True if the role of `context` has a privilege on the organization; raises HeadraceError for `context`."""
        ...


class BoundedRunner(Protocol):
    """Runs statements for clients that wait for the end of each result, and reads the catalog for queries that are not of the dialect."""

    async def execute(
        self,
        text: str,
        *,
        principal: Principal,
        context: SessionContext,
        files: Mapping[str, bytes],
        bounded: bool,
    ) -> Executed:
        """Run `text` as `StatementRunner.execute` does; with `bounded`, refuse results without an end (0A000)."""
        ...

    async def columns(
        self, text: str, *, principal: Principal, context: SessionContext
    ) -> tuple[ResultColumn, ...] | None:
        """Return the columns of a SELECT, which is not run; None for any other statement. Raises HeadraceError."""
        ...

    async def read(
        self, text: str, read: Callable[[Execution], T], *, principal: Principal, context: SessionContext
    ) -> T:
        """Call `read`, which answers `text` from the catalog, in a thread; raises HeadraceError."""
        ...

    def settled(self, context: SessionContext, principal: Principal) -> SessionContext:
        """Return the complete `context`, without names of missing objects."""
        ...


class CatalogReader(Protocol):
    """Reads system relations, and reports what changes."""

    @property
    def committed(self) -> Signal:
        """The signal of each commit of the catalog."""
        ...

    @property
    def progressed(self) -> Signal:
        """The signal of each progress of a continuous query."""
        ...

    @property
    def pushed(self) -> Mapping[str, Signal]:
        """The signals of changes that are not in the catalog, by system relation."""
        ...

    def state(self) -> CatalogState:
        """Return the catalog's current state, for `changes`."""
        ...

    async def changes(
        self, since: CatalogState, kinds: Collection[str], *, principal: Principal, context: SessionContext
    ) -> tuple[CatalogState, list[Change]]:
        """Return the current state, and what changed since another one for the role of `context`; raises HeadraceError for `context`."""
        ...

    async def read(
        self,
        text: str | Statement,
        read: Callable[[Execution], T],
        *,
        principal: Principal,
        context: SessionContext,
        repeated: bool = False,
    ) -> T:
        """Call `read`, which answers `text` from the catalog, in a thread; raises HeadraceError. A `repeated` read is recorded only if it
        fails."""
        ...


class Accounts(Protocol):
    """Users who may sign in to the page. `scram` has their verifiers, from memory."""

    scram: Verifiers

    def user(self, name: str) -> User | None:
        """Return the user of that name, or None; from memory."""
        ...

    def known_token(self, token: str) -> ApiToken | None:
        """Return the API token that this is or was, even if it has expired; from memory."""
        ...

    def admit(self, name: str, roles: Mapping[str, bool], *, create: bool) -> Admitted | None:
        """Return the user whom an identity provider has signed in, with the roles of its groups, or None."""
        ...

    def accept_invitation(self, code: str, password: str) -> User | None:
        """Create the user of an invitation and return it, or None; blocks. Raises UserError 3D008 for a password that is too short."""
        ...


class WorksheetStore(Protocol):
    """Saves the worksheets of users; calls block."""

    def save(
        self, principal: Principal, identifier: str, content: WorksheetContent, *, is_open: bool, seen: int
    ) -> Saved | None:
        """Save a worksheet over the version `seen` or a later one; None for an id that is taken. Raises UserError 53000 for too many."""
        ...

    def delete(self, principal: Principal, identifier: str) -> bool:
        """Delete a worksheet; False if the user has none with that id."""
        ...


@dataclass(frozen=True)
class MetricFamily:
    """A metric of continuous queries or other objects for the metrics page: name without prefix, help, and the names of its labels.

    Each sample has a value for each label. `is_counter` marks a sum that only grows. A histogram has `sums`: the sum of the observed values
    by the labels without the last one, which is `le`.
    """

    name: str
    help: str
    labels: tuple[str, ...]
    samples: Sequence[tuple[Sequence[str], float]]
    is_counter: bool = False
    sums: Mapping[tuple[str, ...], float] | None = None
    of: str = "query"
    """The kind of the objects, which is in the prefix."""


@dataclass(frozen=True)
class ServerParts:
    """Parts of the application.

    `authenticate` returns a token's principal or None. `ended` returns the reason why a principal's credentials are no longer valid,
    None while they are valid. Both read only memory and do not block.
    `download` returns the file of a source by its kind, organization and name, None if the principal has none; it blocks.
    `query_metrics` returns the metrics of the continuous queries for the metrics page; `is_ready` is true if statements can run (it may
    block). Without `accounts`, users cannot sign in with a password. `audit` records sign-ins and refused requests.
    `may_read_metrics` is true for the principals that may read the metrics page.
    `broker` is the address of the broker that was started with the server. All interfaces share `turns` and `attempts`.
    GraphQL is served if there is a `reader`, and worksheets are saved if there are `worksheets`. A server that stands by does not lead.
    """

    settings: Settings
    statements: StatementRunner
    authenticate: Callable[[str], Principal | None]
    query_metrics: Callable[[], Iterable[MetricFamily]] = tuple
    is_ready: Callable[[], bool] = lambda: True
    ended: Callable[[Principal], str | None] = lambda _principal: None
    accounts: Accounts | None = None
    audit: Callable[[AuditEntry], None] = lambda _entry: None
    may_read_metrics: Callable[[Principal], bool] = lambda _principal: True
    download: Callable[[Principal, str, str, str], bytes | None] = lambda *_: None
    broker: str | None = None
    turns: Turns = field(default_factory=Turns)
    attempts: Attempts = field(default_factory=Attempts)
    reader: CatalogReader | None = None
    worksheets: WorksheetStore | None = None
    leads: bool = True
