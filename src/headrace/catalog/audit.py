"""The audit log: user, action, privilege, address and result of each event (docs/adr/0036).

Events enter a queue, so that statements do not wait, and `flush` writes the queue into the catalog's database at intervals.
Readers also see the queue, so that the next statement already sees an event. This module does not know which parts are secret:
callers remove secrets before they record an event.
"""

from __future__ import annotations

import datetime
import operator
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any, NoReturn

import structlog
from sqlalchemy import ColumnElement, delete, func, insert, select

from headrace.catalog import tables
from headrace.catalog.lease import Lease, not_leading
from headrace.catalog.storage import Storage
from headrace.catalog.times import micros, moment
from headrace.core.wording import counted

log = structlog.get_logger()

QUEUE_MAX = 10_000
"""So many events may wait to be written. Statements wait for room then; refusals of whoever is not signed in are counted only."""

FOLD_S = 600
FOLDED_MAX = 1000
"""For so long one more event like an earlier one is only counted, if it is a stranger's or the page's polling; of so many kinds."""


class Event(Enum):
    """A kind of audited event; the value is what SQL reads."""

    STATEMENT = "statement"
    CHECK = "check"
    SIGN_IN = "sign_in"
    SIGN_OUT = "sign_out"
    INVITATION = "invitation"
    REQUEST = "request"
    STREAM = "stream"
    LOST = "lost"


class AuditOutcome(Enum):
    """The outcome of an audited event. `DENIED`: a privilege, a token or a password was missing; `FAILED`: any other failure."""

    ALLOWED = "allowed"
    DENIED = "denied"
    FAILED = "failed"


@dataclass(frozen=True)
class AuditEntry:
    """An audited event. `credential` is what the user signed in with, such as `token ci`; `address` is the client's address, `door` the
    interface it used. `statement` has no secrets. `times` counts equal events since `time`."""

    event: Event
    outcome: AuditOutcome
    user: str | None = None
    role: str | None = None
    credential: str | None = None
    address: str | None = None
    door: str | None = None
    sqlstate: str | None = None
    statement_id: str | None = None
    statement: str | None = None
    duration_ms: int | None = None
    detail: str | None = None
    times: int = 1
    time: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.UTC))


@dataclass(frozen=True)
class AuditCondition:
    """Condition `column operator values` on stored events, with the meaning that it has in SQL.

    `column` is a column of the table, and the operator one of =, <>, <, <=, >, >=, BETWEEN, IN, IS NULL and IS NOT NULL. Compare
    texts by =, <> and IN only: databases differ in their order.
    """

    column: str
    operator: str
    values: tuple[str | int, ...] = ()

    def clause(self) -> ColumnElement[bool]:
        """Return the condition for the database."""
        column = tables.audit.c[self.column]
        match self.operator:
            case "IS NULL":
                return column.is_(None)
            case "IS NOT NULL":
                return column.is_not(None)
            case "BETWEEN":
                lowest, highest = self.values
                return column.between(lowest, highest)
            case "IN":
                return column.in_(self.values)
        clause: ColumnElement[bool] = _COMPARISONS[self.operator](column, self.values[0])
        return clause

    def is_met(self, row: Mapping[str, Any]) -> bool:
        """True if a row that is not written yet meets the condition."""
        value = row[self.column]
        if value is None:
            return self.operator == "IS NULL"
        match self.operator:
            case "IS NULL" | "IS NOT NULL":
                return self.operator == "IS NOT NULL"
            case "BETWEEN":
                lowest, highest = self.values
                return bool(lowest <= value <= highest)
            case "IN":
                return value in self.values
        return bool(_COMPARISONS[self.operator](value, self.values[0]))


class AuditLog:
    """Events in the order in which they were recorded, each with a unique number. Calls are thread-safe."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        [row] = storage.rows(select(func.coalesce(func.max(tables.audit.c.id), 0).label("newest")))
        self._newest: int = row["newest"]
        self._waiting: dict[int, AuditEntry] = {}
        self._repeated: dict[AuditEntry, int] = {}
        self._folded: dict[AuditEntry, AuditEntry] = {}
        self._lost = 0
        self._lock = threading.Lock()
        self._flushing = threading.Lock()

    def record(self, entry: AuditEntry) -> None:
        """Queue the event without waiting for the database. Repeated events other than statements are counted; so is the page's polling."""
        with self._lock:
            polling = _is_polling(entry)
            if entry.event is Event.STATEMENT and not polling:
                self._add(entry)
                return
            same = replace(entry, time=_ANY, statement_id=None, duration_ms=None)
            known = self._repeated.get(same)
            if known is not None:
                waiting = self._waiting[known]
                self._waiting[known] = replace(waiting, times=waiting.times + 1)
            elif same in self._folded:
                folded = self._folded[same]
                self._folded[same] = replace(folded, times=folded.times + 1)
            elif self.is_full and not polling:
                self._lost += 1
            else:
                self._repeated[same] = self._add(entry)
                if (polling or entry.user is None) and len(self._folded) < FOLDED_MAX:
                    self._folded[same] = replace(same, time=entry.time, times=0)

    @property
    def is_full(self) -> bool:
        """True if too many entries wait to be written: an action that could not be recorded afterwards must not be done."""
        return len(self._waiting) >= QUEUE_MAX

    def flush(self, *, closing: bool = False) -> None:
        """Write the queue; when `closing`, also write the counted events. Raises ExternalError 57015, and then keeps the queue."""
        with self._flushing:
            with self._lock:
                self._unfold(datetime.timedelta(0 if closing else FOLD_S))
                if self._lost:
                    lost, self._lost = self._lost, 0
                    detail = f"{counted(lost, 'refusal')} could not be recorded, since they came faster than they could be written"
                    self._add(AuditEntry(Event.LOST, AuditOutcome.FAILED, detail=detail))
                self._repeated.clear()
                batch = dict(self._waiting)
            if not batch:
                return
            with self._storage.transaction():
                # If the reply to a commit is lost, the commit may or may not have happened.
                self._storage.execute(delete(tables.audit).where(tables.audit.c.id >= min(batch)))
                rows = [{"id": number, **_row(entry)} for number, entry in batch.items()]
                self._storage.connection.execute(insert(tables.audit), rows)
            with self._lock:
                for number in batch:
                    del self._waiting[number]

    def forget(self, before: datetime.datetime) -> int:
        """Delete the events before a time, and return how many were deleted."""
        with self._storage.transaction():
            return self._storage.execute(delete(tables.audit).where(tables.audit.c.time < micros(before)))

    def read(self, most: int, conditions: Sequence[AuditCondition] = ()) -> list[tuple[int, AuditEntry]]:
        """Return the newest `most` events that meet all conditions, written or not, oldest first, with their numbers."""
        with self._lock:
            waiting = dict(self._waiting)
        entries: dict[int, AuditEntry] = {}
        for number, entry in waiting.items():
            unwritten = {"id": number, **_row(entry)}
            if all(condition.is_met(unwritten) for condition in conditions):
                entries[number] = entry
        table = tables.audit
        matching = select(table).where(*(condition.clause() for condition in conditions))
        for row in self._storage.rows(matching.order_by(table.c.id.desc()).limit(most)):
            entries[row["id"]] = _entry(row)
        return sorted(entries.items())[-most:]

    def _unfold(self, lasts: datetime.timedelta) -> None:
        """Queue the events that were only counted for that long."""
        over = datetime.datetime.now(datetime.UTC) - lasts
        for same, folded in list(self._folded.items()):
            if folded.time <= over:
                del self._folded[same]
                if folded.times:
                    self._add(folded)

    def _add(self, entry: AuditEntry) -> int:
        self._newest += 1
        self._waiting[self._newest] = entry
        return self._newest


class FollowedAuditLog(AuditLog):
    """The audit log on a server that stands by, which may not write it: events are in the log of that server, without statements."""

    def __init__(self, storage: Storage, lease: Lease) -> None:
        super().__init__(storage)
        self._lease = lease

    def record(self, entry: AuditEntry) -> None:
        """Log the event."""
        log.info(
            "audit_event",
            audited=entry.event.value,
            outcome=entry.outcome.value,
            user=entry.user,
            role=entry.role,
            address=entry.address,
            sqlstate=entry.sqlstate,
            statement_id=entry.statement_id,
            detail=entry.detail,
        )

    def read(self, _most: int, _conditions: Sequence[AuditCondition] = ()) -> NoReturn:
        """Raise ExternalError 57P03: the leader has events that it has not written yet."""
        raise not_leading(self._lease.leader)


def _is_polling(entry: AuditEntry) -> bool:
    """True for a LIST or a SELECT of system relations that the page or GraphQL ran and that succeeded: open pages repeat them."""
    text = (entry.statement or "").lstrip()
    first = text.split(maxsplit=1)[:1]
    repeats = first == ["LIST"] or (first == ["SELECT"] and "deltastream.sys." in text)
    was_allowed = (entry.event, entry.outcome) == (Event.STATEMENT, AuditOutcome.ALLOWED)
    return repeats and was_allowed and entry.door in ("page", "graphql")


_ANY = datetime.datetime.min
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""By their names in SQL. A comparison of a table's column gives a condition, a comparison of a value gives its truth."""
_NAMES = tuple(
    item.name for item in fields(AuditEntry) if item.name not in ("event", "outcome", "user", "time")
)
"""What is stored as it is, under the same name."""


def _row(entry: AuditEntry) -> dict[str, object]:
    values = {name: getattr(entry, name) for name in _NAMES}
    values |= {"event": entry.event.value, "outcome": entry.outcome.value}
    return {**values, "user_name": entry.user, "time": micros(entry.time)}


def _entry(row: Mapping[Any, Any]) -> AuditEntry:
    return AuditEntry(
        Event(row["event"]),
        AuditOutcome(row["outcome"]),
        row["user_name"],
        time=moment(row["time"]),
        **{name: row[name] for name in _NAMES},
    )
