"""The types of the system relations: an object with its links, a connection of pages, and conditions, all generated."""

from __future__ import annotations

import base64
import binascii
import datetime
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NewType

import strawberry
from strawberry.types import Info
from strawberry.types.scalar import ScalarDefinition

from headrace.core.names import SYSTEM_SCHEMA
from headrace.core.schema import Column
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT, BOOLEAN, DOUBLE, INTEGER, TIMESTAMP, VARCHAR, DataType
from headrace.server.graphql.errors import RefusedError, refused
from headrace.server.graphql.limits import PAGE_ROWS
from headrace.statements.system import RELATIONS, Reference, SystemRelation
from headrace.statements.system.paging import Key, Page, PageRequest, Row, RowCondition, key_of, referred

BigInt = NewType("BigInt", int)
VALUES_MAX = 1000
"""Values of a condition with `in`."""

SYSTEM_RELATIONS: Mapping[str, SystemRelation] = {
    name: relation for (schema, name), relation in sorted(RELATIONS.items()) if schema == SYSTEM_SCHEMA
}
_TYPES: dict[DataType, Any] = {
    VARCHAR: str,
    BOOLEAN: bool,
    INTEGER: int,
    BIGINT: BigInt,
    DOUBLE: float,
    TIMESTAMP: datetime.datetime,
}
_TYPE_NAMES = {"queries": "ContinuousQuery"}
"""`Query` is the root type of GraphQL."""
_OPERATORS = {
    "eq": "=",
    "ne": "<>",
    "in_": "IN",
    "lt": "<",
    "lte": "<=",
    "gt": ">",
    "gte": ">=",
    "contains": "CONTAINS",
    "starts_with": "STARTS WITH",
}


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("expected a whole number")
    return int(value)


BIG_INT: ScalarDefinition = strawberry.scalar(
    name="BigInt",
    description="A whole number of 64 bits, as a text: not every client has such numbers.",
    serialize=str,
    parse_value=_whole,
)


@dataclass(frozen=True)
class Node:
    """A row of a system relation."""

    relation: SystemRelation
    row: Row


@dataclass(frozen=True)
class Connection:
    """A page of rows, as the fields of a connection."""

    relation: SystemRelation
    page: Page

    @property
    def nodes(self) -> list[Node]:
        """The rows."""
        return [Node(self.relation, row) for row in self.page.rows]

    @property
    def edges(self) -> list[Edge]:
        """The rows with their cursors."""
        return [Edge(node) for node in self.nodes]

    @property
    def total_count(self) -> int:
        """The number of the rows of all pages."""
        return self.page.count

    @property
    def page_info(self) -> PageInfo:
        """The end of the page: true if more rows follow, and the cursors of the first and the last row."""
        rows = self.page.rows
        ends = [_cursor(self.relation, row) for row in (rows[0], rows[-1])] if rows else [None, None]
        return PageInfo(has_next_page=self.page.has_next, start_cursor=ends[0], end_cursor=ends[1])


@dataclass(frozen=True)
class Edge:
    """A row with its cursor."""

    node: Node

    @property
    def cursor(self) -> str:
        """The text that `after` continues from."""
        return _cursor(self.node.relation, self.node.row)


@strawberry.type
class PageInfo:
    """Position of a page."""

    has_next_page: bool
    start_cursor: str | None
    end_cursor: str | None


def value_of(source: Any, name: str) -> object:
    """Return the value of a field without a resolver: a column of a row, or an attribute."""
    if not isinstance(source, Node):
        return getattr(source, name)
    value = source.row[source.relation.places[name]]
    # JSON has no such numbers.
    return None if isinstance(value, float) and not math.isfinite(value) else value


def type_name(relation: SystemRelation) -> str:
    """Return the name of a row's type: `RelationColumn` of `relation_columns`."""
    singular = f"{relation.name[:-3]}y" if relation.name.endswith("ies") else relation.name.removesuffix("s")
    return _TYPE_NAMES.get(relation.name) or _capitalised(singular)


def _optional(kind: Any) -> Any:
    """Return the annotation of a type that is generated, or NULL."""
    return kind | None


def _capitalised(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def condition_type(kind: str, value: Any, *names: str) -> type:
    """Return the input type of conditions on a column of a type."""
    annotations: dict[str, Any] = {}
    namespace: dict[str, Any] = {"__annotations__": annotations, "__doc__": None}
    for name in names:
        annotations[name] = _optional(list[value] if name == "in_" else value)
        namespace[name] = strawberry.field(default=strawberry.UNSET, name="in" if name == "in_" else None)
    annotations["is_null"] = _optional(bool)
    namespace["is_null"] = strawberry.field(default=strawberry.UNSET)
    description = "Conditions on a column, all of which a row must meet. As in SQL, NULL meets `isNull` only."
    return strawberry.input(type(f"{kind}Condition", (), namespace), description=description)


_ORDERED = ("eq", "ne", "in_", "lt", "lte", "gt", "gte")
_CONDITIONS: dict[DataType, type] = {
    VARCHAR: condition_type("String", str, *_ORDERED, "contains", "starts_with"),
    BOOLEAN: condition_type("Boolean", bool, "eq"),
    INTEGER: condition_type("Int", int, *_ORDERED),
    BIGINT: condition_type("BigInt", BigInt, *_ORDERED),
    DOUBLE: condition_type("Float", float, *_ORDERED),
    TIMESTAMP: condition_type("DateTime", datetime.datetime, *_ORDERED),
}


class ObjectTypes:
    """The generated types: `objects` of rows, `connections` of pages and `inputs` of conditions, by the relation's name."""

    def __init__(self) -> None:
        self.objects = {name: type(type_name(each), (), {}) for name, each in SYSTEM_RELATIONS.items()}
        self.inputs = {name: _input(each) for name, each in SYSTEM_RELATIONS.items()}
        self.connections = {name: self._connection(each) for name, each in SYSTEM_RELATIONS.items()}
        links: dict[str, dict[str, Any]] = {name: {} for name in SYSTEM_RELATIONS}
        for relation in SYSTEM_RELATIONS.values():
            for reference in relation.references:
                links[relation.name][reference.name] = self._forward(relation, reference)
                if reference.reverse is not None:
                    links[reference.relation][reference.reverse] = self._backward(relation, reference)
        for name, relation in SYSTEM_RELATIONS.items():
            self._define(relation, links[name])

    def root_field(self, relation: SystemRelation) -> Any:
        """Return the field that reads a relation."""

        async def page(root: Any, info: Info, first: int, after: Any, where: Any) -> Connection:  # noqa: ARG001
            request = _request(relation, info, first, after)
            return Connection(
                relation, await info.context.reads.page(relation, _conditions(relation, where), request)
            )

        return self._page_field(page, relation, relation.doc)

    def _define(self, relation: SystemRelation, links: Mapping[str, Any]) -> None:
        cls = self.objects[relation.name]
        cls.__annotations__ = {column.name: _annotation(column) for column in relation.columns}
        for column in relation.columns:
            setattr(cls, column.name, strawberry.field())
        for name, link in links.items():
            setattr(cls, name, link)
        strawberry.type(cls, description=relation.doc)

    def _connection(self, relation: SystemRelation) -> type:
        name, node = type_name(relation), self.objects[relation.name]
        edge = type(f"{name}Edge", (), {"__annotations__": {"cursor": str, "node": node}})
        strawberry.type(edge, description="A row with its cursor, from which `after` continues.")
        annotations = {
            "nodes": list[node],  # type: ignore[valid-type] # built at run time
            "edges": list[edge],  # type: ignore[valid-type]
            "page_info": PageInfo,
            "total_count": int,
        }
        connection = type(f"{name}Connection", (), {"__annotations__": annotations})
        return strawberry.type(connection, description="A page of rows in the order of their keys.")

    def _forward(self, relation: SystemRelation, reference: Reference) -> Any:
        target, _ = referred(relation, reference)

        async def link(root: Any, info: Info) -> Any:
            row = await info.context.reads.referred_row(relation, reference, root.row)
            return Node(target, row) if row is not None else None

        link.__annotations__ = {"root": Any, "info": Info, "return": _optional(self.objects[target.name])}
        columns = ", ".join(f"`{column}`" for column in reference.columns)
        return strawberry.field(
            resolver=link, description=f"The row of {target.name} that {columns} refer to."
        )

    def _backward(self, relation: SystemRelation, reference: Reference) -> Any:
        target, columns = referred(relation, reference)
        places = [target.places[column] for column in columns]

        async def page(root: Any, info: Info, first: int, after: Any, where: Any) -> Connection:
            request, conditions = _request(relation, info, first, after), _conditions(relation, where)
            key = tuple(root.row[place] for place in places)
            reads = info.context.reads
            return Connection(
                relation, await reads.referring_page(relation, reference, key, conditions, request)
            )

        return self._page_field(page, relation, f"The rows of {relation.name} that refer to this row.")

    def _page_field(self, resolver: Callable[..., Any], relation: SystemRelation, description: str) -> Any:
        resolver.__annotations__ = {
            "root": Any,
            "info": Info,
            "first": int,
            "after": _optional(str),
            "where": _optional(self.inputs[relation.name]),
            "return": self.connections[relation.name],
        }
        resolver.__defaults__ = (PAGE_ROWS, None, None)
        return strawberry.field(resolver=resolver, description=description)


def _annotation(column: Column) -> Any:
    kind = _TYPES[column.type]
    return _optional(kind) if column.nullable else kind


def _input(relation: SystemRelation) -> type:
    """Return the input type of conditions on the rows of a relation."""
    annotations = {column.name: _optional(_CONDITIONS[column.type]) for column in relation.columns}
    namespace: dict[str, Any] = {"__annotations__": annotations}
    namespace |= {column.name: strawberry.field(default=strawberry.UNSET) for column in relation.columns}
    description = "Conditions on columns, all of which a row must meet."
    return strawberry.input(type(f"{type_name(relation)}Where", (), namespace), description=description)


def _conditions(relation: SystemRelation, where: Any) -> tuple[RowCondition, ...]:
    return tuple(_each_condition(relation, where)) if where else ()


def _each_condition(relation: SystemRelation, where: Any) -> Iterator[RowCondition]:
    for column in relation.columns:
        conditions = getattr(where, column.name)
        for name, value in vars(conditions).items() if conditions else ():
            if value is strawberry.UNSET or value is None:
                continue
            if name == "is_null":
                yield RowCondition(column.name, "IS NULL" if value else "IS NOT NULL")
                continue
            if name == "in_" and len(value) > VALUES_MAX:
                raise refused(
                    SqlState.CONFIGURATION_LIMIT_EXCEEDED,
                    f"expected at most {VALUES_MAX} values of `in`, found {len(value)}",
                )
            values = [_aware(each) for each in value] if name == "in_" else _aware(value)
            yield RowCondition(column.name, _OPERATORS[name], frozenset(values) if name == "in_" else values)


def _aware(value: Any) -> Any:
    """Return a time without a zone as one in UTC, as in SQL; other values unchanged."""
    if isinstance(value, datetime.datetime) and value.tzinfo is None:
        return value.replace(tzinfo=datetime.UTC)
    return value


def _request(relation: SystemRelation, info: Info, first: int, after: str | None) -> PageRequest:
    most = info.context.settings.graphql_page_rows_max
    if not 0 <= first <= most:
        raise refused(
            SqlState.CONFIGURATION_LIMIT_EXCEEDED,
            f"expected `first` from 0 to {most}, found {first}",
            "Read the next page with `after` (setting HEADRACE_GRAPHQL_PAGE_ROWS_MAX).",
        )
    return PageRequest(first, _key(relation, after) if after is not None else None)


def _cursor(relation: SystemRelation, row: Row) -> str:
    key = [
        value.isoformat() if isinstance(value, datetime.datetime) else value
        for value in key_of(relation, row)
    ]
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode()


def _key(relation: SystemRelation, cursor: str) -> Key:
    """Return the key in a cursor. Raises RefusedError 3D008 for a text that is no cursor of the relation."""
    try:
        values = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        columns = [relation.columns[relation.places[name]] for name in relation.key]
        return tuple(_key_value(value, column) for value, column in zip(values, columns, strict=True))
    except (ValueError, TypeError, binascii.Error, RecursionError):
        raise _no_cursor(relation) from None


def _key_value(value: object, column: Column) -> object:
    if value is None and column.nullable:
        return None
    if column.type == TIMESTAMP:
        return _aware(datetime.datetime.fromisoformat(str(value)))
    if type(value) is not (str if column.type == VARCHAR else int):
        raise ValueError("another type")
    return value


def _no_cursor(relation: SystemRelation) -> RefusedError:
    return refused(
        SqlState.INVALID_PARAMETER,
        f"`after` is not a cursor of {relation.name}",
        "Pass `endCursor` of the page before, or `cursor` of a row.",
    )
