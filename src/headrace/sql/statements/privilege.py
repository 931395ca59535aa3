"""Privileges: CAN I. Grammar: dialect section 21."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.names import Identifier, QualifiedName
from headrace.sql.ast import Statement
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import grammar
from headrace.sql.statements.grant import KINDS


@dataclass(frozen=True)
class CanI(Statement):
    """`CAN { I | ROLE role } privilege [ON kind name]`; `kind` is one of `KINDS`, None for the organization; `role` is None for CAN I."""

    privilege: Identifier
    kind: str | None = None
    name: QualifiedName | None = None
    role: Identifier | None = None

    def sql(self) -> str:
        on = f" ON {self.kind} {self.name}" if self.kind else ""
        who = f"ROLE {self.role}" if self.role is not None else "I"
        return f"CAN {who} {self.privilege}{on}"


@grammar("CAN I")
def can_i(cursor: Cursor) -> CanI:
    return _asked(cursor, None)


@grammar("CAN ROLE")
def can_role(cursor: Cursor) -> CanI:
    return _asked(cursor, cursor.identifier("the name of the role"))


def _asked(cursor: Cursor, role: Identifier | None) -> CanI:
    privilege = cursor.identifier("a privilege, such as CREATE_QUERY")
    if not cursor.accept("ON") or cursor.accept("ORGANIZATION"):
        return CanI(*cursor.origin, privilege, role=role)
    kind = cursor.accept_any(*KINDS)
    if kind is None:
        raise cursor.error(f"ORGANIZATION, {', '.join(KINDS)}")
    if kind == "QUERY":
        name = cursor.query_reference()
    elif kind == "FUNCTION":
        name = QualifiedName((cursor.signature(),))
    else:
        name = cursor.qualified_name(f"the name of the {kind.lower()}")
    return CanI(*cursor.origin, privilege, kind, name, role)
