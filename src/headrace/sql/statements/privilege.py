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
    """`CAN I privilege [ON kind name]`; `kind` is one of `KINDS`, None for the organization."""

    privilege: Identifier
    kind: str | None = None
    name: QualifiedName | None = None

    def sql(self) -> str:
        on = f" ON {self.kind} {self.name}" if self.kind else ""
        return f"CAN I {self.privilege}{on}"


@grammar("CAN I")
def can_i(cursor: Cursor) -> CanI:
    privilege = cursor.identifier("a privilege, such as CREATE_QUERY")
    if not cursor.accept("ON") or cursor.accept("ORGANIZATION"):
        return CanI(*cursor.origin, privilege)
    kind = cursor.accept_any(*KINDS)
    if kind is None:
        raise cursor.error(f"ORGANIZATION, {', '.join(KINDS)}")
    if kind == "QUERY":
        return CanI(*cursor.origin, privilege, kind, cursor.query_reference())
    if kind == "FUNCTION":
        return CanI(*cursor.origin, privilege, kind, QualifiedName((cursor.signature(),)))
    return CanI(*cursor.origin, privilege, kind, cursor.qualified_name(f"the name of the {kind.lower()}"))
