"""ALTER: name or owner of any kind of object, description of a relation, statement of a query. Grammar: dialect sections 5 to 9, 20."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.names import Identifier, QualifiedName
from headrace.sql.ast import Statement, quoted_text
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import grammar, select
from headrace.sql.statements.query import ReplaceQuery, RollBackQuery
from headrace.sql.statements.relation import ALL_KINDS, kind_before
from headrace.sql.statements.schema import ManageAccess

RELATIONS = ("RELATION", *ALL_KINDS)
KINDS = (
    "DATABASE",
    "SCHEMA",
    "STORE",
    "SCHEMA_REGISTRY",
    "DESCRIPTOR_SOURCE",
    "FUNCTION_SOURCE",
    "FUNCTION",
    "SECRET",
    "COMPUTE_POOL",
    "SAVEPOINT",
    "ALERT",
    "ROLE",
    "QUERY",
    *RELATIONS,
)


@dataclass(frozen=True)
class Rename(Statement):
    """`ALTER kind name RENAME TO name`; `kind` is that of the object, such as STORE; a query may be named by its id."""

    kind: str
    name: QualifiedName
    new_name: Identifier

    def sql(self) -> str:
        return f"ALTER {self.kind} {self.name} RENAME TO {self.new_name}"


@dataclass(frozen=True)
class ChangeOwner(Statement):
    """`ALTER kind name OWNER TO role`; `kind` is that of the object, such as STORE; a query may be named by its id."""

    kind: str
    name: QualifiedName
    owner: Identifier

    def sql(self) -> str:
        return f"ALTER {self.kind} {self.name} OWNER TO {self.owner}"


@dataclass(frozen=True)
class DescribeAs(Statement):
    """`ALTER kind name SET description = 'text'`; `kind` is RELATION or that of the relation. Without a `description`, it is removed."""

    kind: str
    name: QualifiedName
    description: str | None

    def sql(self) -> str:
        text = "NULL" if self.description is None else quoted_text(self.description)
        return f"ALTER {self.kind} {self.name} SET description = {text}"


@grammar(*(f"ALTER {kind}" for kind in KINDS))
def alter(cursor: Cursor) -> Rename | ChangeOwner | DescribeAs | ManageAccess | ReplaceQuery | RollBackQuery:
    kind = kind_before(cursor)
    name = _name(cursor, kind)
    if cursor.at("RENAME") and kind == "ROLE":
        other = (
            "A role cannot be renamed, because grants, tokens and queries name it: CREATE ROLE another one "
            "WITH ( IN ROLE ( this one ) )."
        )
        raise cursor.unsupported("RENAME of a role", hint=other)
    if cursor.accept("RENAME"):
        cursor.expect("TO")
        return Rename(*cursor.origin, kind, name, cursor.identifier("the new name, of one part"))
    if kind == "SCHEMA" and (word := cursor.accept_any("ENABLE", "DISABLE")) is not None:
        cursor.expect("MANAGED", "ACCESS")
        return ManageAccess(*cursor.origin, name, word == "ENABLE")
    if cursor.accept("OWNER"):
        cursor.expect("TO")
        return ChangeOwner(*cursor.origin, kind, name, cursor.identifier("the name of a role"))
    if kind == "QUERY" and cursor.accept("AS"):
        return ReplaceQuery(*cursor.origin, name, select(cursor))
    if kind == "QUERY" and cursor.accept("ROLLBACK"):
        cursor.expect("TO", "VERSION")
        return RollBackQuery(*cursor.origin, name, cursor.whole_number("the number of a version"))
    if kind == "QUERY" and cursor.at("ADD", "TAG"):
        other = "QUERY WITH ('query.name' = name) names a query when it is created, and RENAME TO renames it."
        raise cursor.unsupported("ALTER QUERY … ADD TAG", hint=other, words=2)
    if kind not in RELATIONS:
        hint = (
            f"UPDATE {kind} name WITH (…) changes its properties."
            if kind in ("STORE", "SCHEMA_REGISTRY")
            else None
        )
        forms = {
            "SCHEMA": "RENAME TO name, OWNER TO role, or ENABLE or DISABLE MANAGED ACCESS",
            "QUERY": "RENAME TO name, OWNER TO role, AS SELECT … or ROLLBACK TO VERSION number",
        }
        raise cursor.error(forms.get(kind, "RENAME TO name or OWNER TO role"), hint=hint)
    if not cursor.accept("SET", "DESCRIPTION"):
        raise cursor.error("SET description = '…', RENAME TO name or OWNER TO role")
    cursor.expect("=")
    text = None if cursor.accept("NULL") else cursor.string("a description in single quotes, or NULL")
    return DescribeAs(*cursor.origin, kind, name, text)


def _name(cursor: Cursor, kind: str) -> QualifiedName:
    if kind == "QUERY":
        return cursor.query_reference()
    if kind == "FUNCTION":
        return QualifiedName((cursor.signature(),))
    most = {"SCHEMA": 2}.get(kind, 3 if kind in RELATIONS else 1)
    return cursor.qualified_name(f"the name of the {kind.lower().replace('_', ' ')}", most)
