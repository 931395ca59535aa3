"""Definition of a system relation, the lookup of its name, and its rows in the form of the snapshot engine."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from headrace.catalog.access import Privilege
from headrace.catalog.objects import Query, Relation, RelationKind, StoreFacts, UserFunction
from headrace.catalog.policy import Requirement, refusal
from headrace.catalog.state import CatalogState
from headrace.core.errors import InternalError
from headrace.core.names import INFORMATION_SCHEMA, SYSTEM_DATABASE, SYSTEM_SCHEMA, RelationName
from headrace.core.resultset import transposed
from headrace.core.schema import Column, Schema
from headrace.core.types import BIGINT, BOOLEAN, DOUBLE, INTEGER, TIMESTAMP, VARCHAR, DataType
from headrace.planner.view_reads import Condition, equal_values
from headrace.statements.base import Execution

if TYPE_CHECKING:
    import pyarrow

Rows = Iterable[tuple[object, ...]]
_EVER = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
_EVERYBODY = "public"
"""The role that every role has: it owns the system relations, so that all may read them."""


@dataclass(frozen=True)
class Reference:
    """Columns that contain the key of a row of another relation of the same schema, or of `targets`, which identify a row there too.

    `name` is the name of the link, and `reverse` that of the link back to all rows that refer to a row (None: there is none). With `when`,
    a column and its value, only rows with that value refer.
    """

    name: str
    relation: str
    columns: tuple[str, ...]
    reverse: str | None = None
    targets: tuple[str, ...] | None = None
    when: tuple[str, str] | None = None


def owned(name: str) -> Reference:
    """Return the reference of the objects in the relation `name` to the roles that own them."""
    return Reference("owner_role", "roles", ("owner",), f"owned_{name}")


@dataclass(frozen=True)
class SystemRelation:
    """A relation whose rows are computed when it is read: `rows` returns the current rows, with times as aware datetimes.

    The relations of `information_schema` exist in every database: the execution's context contains the database. With `needs`, only roles
    with that privilege on the organization may read the relation. `key` are the columns that identify a row, and `references` lead to rows
    of other relations: generated interfaces page and link rows by them. `matching` is for relations whose rows are many or in a database:
    it returns at least the rows that meet the conditions; if the relation shows a limited number of rows, the limit applies to its result.
    """

    schema: str
    name: str
    doc: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    rows: Callable[[Execution], Rows]
    references: tuple[Reference, ...] = ()
    needs: Privilege | None = None
    matching: Callable[[Execution, Sequence[Condition]], Rows] | None = None

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The place of each column in a row."""
        return {column.name: place for place, column in enumerate(self.columns)}

    @property
    def requirement(self) -> Requirement | None:
        """The privilege that a role needs to read the relation; None if every role may."""
        return Requirement(self.needs) if self.needs is not None else None

    def read(self, run: Execution, conditions: Sequence[Condition] = ()) -> Rows:
        """Return the current rows, at least those that meet the conditions."""
        return self.rows(run) if self.matching is None else self.matching(run, conditions)

    def relation(self, database: str) -> Relation:
        """Return the relation of a database, as binding sees it."""
        name = RelationName(database, self.schema, self.name)
        return Relation(
            name,
            RelationKind.SYSTEM,
            Schema(self.columns),
            _EVERYBODY,
            _EVER,
            _EVER,
            id=str(name),
            description=self.doc,
        )


RELATIONS: dict[tuple[str, str], SystemRelation] = {}


def system_relation(
    name: str,
    *columns: Column,
    key: Sequence[str],
    doc: str,
    references: Sequence[Reference] = (),
    schema: str = SYSTEM_SCHEMA,
    needs: Privilege | None = None,
    matching: Callable[[Execution, Sequence[Condition]], Rows] | None = None,
) -> Callable[[Callable[[Execution], Rows]], Callable[[Execution], Rows]]:
    """Register the function that gives the rows of a system relation, a value for each column in order."""

    def register(rows: Callable[[Execution], Rows]) -> Callable[[Execution], Rows]:
        if (schema, name) in RELATIONS:
            raise InternalError(f"two system relations {schema}.{name}")
        RELATIONS[schema, name] = SystemRelation(
            schema, name, doc, columns, tuple(key), rows, tuple(references), needs, matching
        )
        return rows

    return register


def always(name: str, kind: DataType = VARCHAR) -> Column:
    """Return a column that is never NULL."""
    return Column(name, kind, nullable=False)


def ids_allowed(conditions: Sequence[Condition], column: str) -> frozenset[str] | None:
    """Return the ids that conditions on a column allow, without texts that no database can store; None if any is allowed."""
    chosen = equal_values(conditions, column)
    return chosen and frozenset(text for text in chosen if text.isascii() and text.isprintable())


def visible_queries(run: Execution, chosen: frozenset[str] | None) -> list[Query]:
    """Return the queries of these ids, or all for None, that the role sees."""
    return run.visible(run.catalog.queries() if chosen is None else run.catalog.queries_of_ids(chosen))


def system_relation_of(name: RelationName) -> SystemRelation | None:
    """Return the system relation of a full name, None for any other name."""
    inside = name.schema == INFORMATION_SCHEMA or (name.database, name.schema) == (
        SYSTEM_DATABASE,
        SYSTEM_SCHEMA,
    )
    return RELATIONS.get((name.schema, name.name)) if inside else None


@dataclass(frozen=True)
class SystemLookup:
    """Name lookup of binding: the relations that a role may read, and the system relations. `role` None: all, as inside a view."""

    stored: CatalogState
    role: str | None

    def relation(self, name: RelationName, /) -> Relation | None:
        """Return the relation of that full name, None if it is missing or unknown to the role; raises 42501 if the role may not read it."""
        system = system_relation_of(name)
        policy = self.stored.policy
        if system is not None:
            needed = system.requirement
            if self.role is not None and needed is not None and not policy.fulfils(self.role, needed):
                raise refusal(policy, self.role, needed)
            return system.relation(name.database)
        stored = self.stored.relation(name)
        if stored is None or self.role is None:
            return stored
        if not policy.known(self.role, stored):
            return None
        needed = Requirement(Privilege.SELECT, stored)
        if not policy.fulfils(self.role, needed):
            raise refusal(policy, self.role, needed)
        return stored

    def relations(self, database: str | None = None, schema: str | None = None) -> Sequence[Relation]:
        """Return all relations, or those of a database or schema: for suggestions."""
        stored, role = self.stored.relations(database, schema), self.role
        if role is not None:
            stored = [candidate for candidate in stored if self.stored.policy.visible(role, candidate)]
        if (database or SYSTEM_DATABASE, schema or SYSTEM_SCHEMA) != (SYSTEM_DATABASE, SYSTEM_SCHEMA):
            return stored
        system = [
            item.relation(SYSTEM_DATABASE) for item in RELATIONS.values() if item.schema == SYSTEM_SCHEMA
        ]
        return [*stored, *system]

    def functions(self, name: str, /) -> Sequence[tuple[UserFunction, str]]:
        """Return the users' functions of that name, each with the SHA-256 of its code; without those that the role may not know."""
        stored, policy = self.stored.functions(name), self.stored.policy
        return stored if self.role is None else [pair for pair in stored if policy.known(self.role, pair[0])]

    def store(self, name: str, /) -> StoreFacts | None:
        """Return the store of that name, or None."""
        return self.stored.store(name)

    def named_store(self, name: str, /) -> StoreFacts | None:
        """Return the store of that name, None also for one that the role may not know."""
        stored = self.stored.store(name)
        hidden = (
            stored is not None and self.role is not None and not self.stored.policy.known(self.role, stored)
        )
        return None if hidden else stored


def rows_of(
    relations: Iterable[Relation], run: Execution, conditions: Mapping[str, Sequence[Condition]]
) -> dict[str, pyarrow.Table]:
    """Return the rows of the system relations among `relations`, by their ids, all as of the same moment.

    Rows that do not meet the conditions on their relation may be left out.
    """
    with run.catalog.transaction():
        return {
            relation.id: _table(
                system,
                replace(run, context=run.with_context(database=relation.name.database)),
                conditions.get(relation.id, ()),
            )
            for relation in relations
            if (system := system_relation_of(relation.name)) is not None
        }


def arrow_type(kind: DataType) -> pyarrow.DataType:
    """Return Arrow's type of a column of a system relation or a list."""
    import pyarrow

    return {
        VARCHAR: pyarrow.string(),
        BOOLEAN: pyarrow.bool_(),
        INTEGER: pyarrow.int32(),
        BIGINT: pyarrow.int64(),
        DOUBLE: pyarrow.float64(),
        TIMESTAMP: pyarrow.timestamp("us"),
    }[kind]


def _table(relation: SystemRelation, run: Execution, conditions: Sequence[Condition]) -> pyarrow.Table:
    import pyarrow

    columns = transposed(relation.read(run, conditions), len(relation.columns))
    arrays = [
        # In DuckDB, a time with a zone is another type; Headrace's times are UTC without a zone.
        pyarrow.array(values, pyarrow.timestamp("us", "UTC")).cast(arrow_type(column.type))
        if column.type == TIMESTAMP
        else pyarrow.array(values, arrow_type(column.type))
        for values, column in zip(columns, relation.columns, strict=True)
    ]
    return pyarrow.Table.from_arrays(arrays, names=[column.name for column in relation.columns])
