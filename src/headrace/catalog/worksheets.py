"""Worksheets: the texts of a user's editor tabs, which follow the user from browser to browser (docs/adr/0084).

A text may contain the passwords of stores, so it is encrypted, and nobody but its user can read it. A session with a token of one role
has worksheets of its own: such a token must not read what its user wrote with more roles.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from sqlalchemy import ColumnElement, RowMapping, and_, delete, insert, null, select, update

from headrace.catalog import tables
from headrace.catalog.objects import Principal
from headrace.catalog.secrets import SecretBox
from headrace.catalog.storage import Storage
from headrace.catalog.times import moment, present
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState

WORKSHEETS_MAX = 100
"""Of one user. The oldest closed ones are deleted for new ones."""


@dataclass(frozen=True)
class WorksheetContent:
    """A name, a text, and the names of the session that the text is run in."""

    name: str
    text: str = field(repr=False)
    role: str | None = None
    database: str | None = None
    schema: str | None = None
    store: str | None = None
    compute_pool: str | None = None


@dataclass(frozen=True)
class Worksheet:
    """A saved worksheet. `version` counts how often it was saved; a closed one can be opened again."""

    id: str
    content: WorksheetContent
    is_open: bool
    version: int
    created_at: datetime.datetime
    updated_at: datetime.datetime


@dataclass(frozen=True)
class Saved:
    """The version that was saved; `has_replaced` is true if it replaced one that the writer had not seen."""

    version: int
    has_replaced: bool


class Worksheets:
    """The worksheets of all users, read from the database. Calls block. `box` returns the current box."""

    def __init__(self, storage: Storage, box: Callable[[], SecretBox]) -> None:
        self._storage = storage
        self._box = box

    def of(self, principal: Principal) -> list[Worksheet]:
        """Return the worksheets of the principal's user, oldest first."""
        table = tables.worksheets
        rows = self._storage.rows(select(table).where(self._own(principal)).order_by(table.c.created_at))
        return [self._worksheet(row) for row in rows]

    def save(
        self, principal: Principal, identifier: str, content: WorksheetContent, *, is_open: bool, seen: int
    ) -> Saved | None:
        """Save a worksheet, which replaces the present version: the last writer wins. `seen` is the version that the writer has read, 0 for
        a new worksheet. Return None for an id that is taken by another user.

        Raises UserError 53000 if the user has too many worksheets, all of them open.
        """
        table = tables.worksheets
        with self._storage.transaction():
            rows = self._storage.rows(
                select(table.c.version).where(table.c.id == identifier, self._own(principal))
            )
            current = rows[0]["version"] if rows else 0
            values = {
                "is_open": is_open,
                "version": current + 1,
                "updated_at": present(),
                "sealed": self._box().seal(json.dumps(asdict(content)).encode(), identifier),
            }
            if rows:
                self._storage.execute(update(table).where(table.c.id == identifier).values(values))
            elif self._storage.rows(select(table.c.id).where(table.c.id == identifier)):
                return None
            else:
                self._make_room(principal)
                user_id, role_id = self._owner(principal)
                values |= {"id": identifier, "user_id": user_id, "role_id": role_id}
                self._storage.execute(insert(table).values(**values, created_at=values["updated_at"]))
        return Saved(current + 1, has_replaced=current > seen)

    def delete(self, principal: Principal, identifier: str) -> bool:
        """Delete a worksheet; return False if the user has none with that id."""
        with self._storage.transaction():
            own = and_(tables.worksheets.c.id == identifier, self._own(principal))
            return self._storage.execute(delete(tables.worksheets).where(own)) > 0

    def seal_again(self) -> None:
        """Seal all texts with the present key, within a transaction."""
        table = tables.worksheets
        for row in self._storage.rows(select(table.c.id, table.c.sealed)):
            sealed = self._box().sealed_again(row["sealed"], row["id"])
            self._storage.execute(update(table).where(table.c.id == row["id"]).values(sealed=sealed))

    def _make_room(self, principal: Principal) -> None:
        """Delete the oldest closed worksheet if the user has as many as possible. Raises UserError 53000 if none is closed."""
        table = tables.worksheets
        rows = self._storage.rows(
            select(table.c.id, table.c.is_open).where(self._own(principal)).order_by(table.c.updated_at)
        )
        if len(rows) < WORKSHEETS_MAX:
            return
        closed = [row["id"] for row in rows if not row["is_open"]]
        if not closed:
            raise UserError(
                SqlState.CONFIGURATION_LIMIT_EXCEEDED,
                f"{WORKSHEETS_MAX} worksheets are open, and a user can have no more",
                hint="Close a worksheet that you no longer need.",
            )
        self._storage.execute(delete(table).where(table.c.id == closed[0]))

    def _owner(self, principal: Principal) -> tuple[str, str | None]:
        """Return the id of the principal's user (empty if the user was dropped), and that of the role of its API token if the token has
        only one."""
        state = self._storage.state
        user = state.members.users.get(principal.user)
        tokens = {token.id: token for token in state.members.tokens.values()}
        token = tokens.get(principal.token or "")
        role = token.role if token is not None else None
        return user.id if user is not None else "", state.role_id(role) if role is not None else None

    def _own(self, principal: Principal) -> ColumnElement[bool]:
        user_id, role_id = self._owner(principal)
        column = tables.worksheets.c.role_id
        same_role = column == role_id if role_id is not None else column.is_(null())
        return and_(tables.worksheets.c.user_id == user_id, same_role)

    def _worksheet(self, row: RowMapping) -> Worksheet:
        content = json.loads(self._box().open(row["sealed"], row["id"]))
        return Worksheet(
            row["id"],
            WorksheetContent(**content),
            row["is_open"],
            row["version"],
            moment(row["created_at"]),
            moment(row["updated_at"]),
        )
