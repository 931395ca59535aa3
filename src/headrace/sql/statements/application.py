"""APPLICATION: several statements that are made, run and ended as one. Grammar: dialect section 19."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.errors import UserError
from headrace.core.names import VIRTUAL_DATABASE, Identifier, QualifiedName
from headrace.core.sqlstate import SqlState
from headrace.sql.ast import Properties, Select, Statement
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import GRAMMAR, grammar, select, statement
from headrace.sql.statements.query import InsertInto
from headrace.sql.statements.relation import CreateRelation, CreateRelationAs
from headrace.sql.statements.session import Use

_USABLE = ("DATABASE", "SCHEMA", "STORE")
_MAY_STAND = (
    "An application may contain USE DATABASE, SCHEMA and STORE, CREATE STREAM, CHANGELOG and TABLE, CREATE … "
    "AS SELECT, CREATE VIRTUAL STREAM and CHANGELOG, and INSERT INTO."
)


@dataclass(frozen=True)
class CreateVirtual(Statement):
    """`CREATE VIRTUAL STREAM | CHANGELOG virtual.schema.name AS select`: a name for a query, inside an application."""

    kind: str
    name: QualifiedName
    select: Select

    def sql(self) -> str:
        return f"CREATE VIRTUAL {self.kind} {self.name} AS {self.select.sql()}"


@grammar("CREATE VIRTUAL STREAM", "CREATE VIRTUAL CHANGELOG")
def create_virtual(cursor: Cursor) -> CreateVirtual:
    kind = cursor.tokens[cursor.index - 1].text.upper()
    name = cursor.qualified_name(f"the name of the virtual {kind.lower()}")
    if len(name.parts) != 3 or name.parts[0].name != VIRTUAL_DATABASE:
        raise UserError(
            SqlState.SYNTAX_ERROR,
            f"expected a name in the database {VIRTUAL_DATABASE}, found {name}",
            hint=f"Write {VIRTUAL_DATABASE}.public.{name.last}.",
            span=name.span,
        )
    if not cursor.accept("AS"):
        raise cursor.error("AS and a query", hint="A virtual relation has no store, and no properties.")
    return CreateVirtual(*cursor.origin, kind, name, select(cursor))


@dataclass(frozen=True)
class Application(Statement):
    """`BEGIN APPLICATION name statement; … END APPLICATION [WITH (…)]`."""

    name: Identifier
    statements: tuple[Statement, ...]
    properties: Properties

    def sql(self) -> str:
        inside = "".join(f" {item.sql()};" for item in self.statements)
        return f"BEGIN APPLICATION {self.name}{inside} END APPLICATION{self.properties.sql()}"


@grammar("BEGIN APPLICATION")
def application(cursor: Cursor) -> Application:
    name = cursor.identifier("the name of the application")
    statements = []
    while True:
        while cursor.accept(";"):
            pass
        if cursor.token is None:
            raise cursor.error("END APPLICATION")
        if _at_end(cursor):
            break
        statements.append(_inner(cursor))
    if not statements:
        raise cursor.error("a statement", hint=_MAY_STAND)
    cursor.expect("END", "APPLICATION")
    return Application(*cursor.origin, name, tuple(statements), cursor.properties())


def _inner(cursor: Cursor) -> Statement:
    """Parse the statement up to the next semicolon, or to the end of the application."""
    end = cursor.nested()
    while end.token is not None and not end.at(";") and not _at_end(end):
        end.index += 1
    inner = statement(Cursor(cursor.source, cursor.tokens[cursor.index : end.index]))
    allowed = isinstance(inner, CreateRelation | CreateRelationAs | CreateVirtual | InsertInto) or (
        isinstance(inner, Use) and inner.kind in _USABLE
    )
    if not allowed:
        first = cursor.tokens[cursor.index]
        words = tuple(token.text.upper() for token in cursor.tokens[cursor.index : cursor.index + 2])
        known = any(start[:2] == words for start in GRAMMAR)
        raise UserError(
            SqlState.SYNTAX_ERROR,
            f"{' '.join(words if known else words[:1])} is not allowed in an application",
            hint=_MAY_STAND,
            span=cursor.source.span(first.start, cursor.tokens[end.index - 1].end + 1),
        )
    cursor.index = end.index
    return inner


def _at_end(cursor: Cursor) -> bool:
    """True at END APPLICATION, but not at the end of a CASE with the alias application."""
    if not cursor.at("END", "APPLICATION"):
        return False
    following = cursor.peek(2)
    return following is None or following.text.upper() in (";", "WITH")
