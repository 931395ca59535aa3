"""The statements that create each database."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.schema import Column
from headrace.core.types import INTEGER, VARCHAR
from headrace.planner.view_reads import Condition
from headrace.statements.base import Execution
from headrace.statements.definitions import definitions as definitions_of
from headrace.statements.system.relation import Reference, Rows, always, system_relation


def _matching(run: Execution, conditions: Sequence[Condition]) -> Rows:
    named = [
        each.values for each in conditions if each.column == "database_name" and each.operator in ("=", "IN")
    ]
    for database in run.visible(run.catalog.databases()):
        if all(database.name in values for values in named):
            for position, item in enumerate(definitions_of(database.name, run), 1):
                schema = item.path[1] if len(item.path) > 2 else None
                yield database.name, position, item.kind, schema, item.path[-1], item.statement, item.note


@system_relation(
    "definitions",
    always("database_name"),
    always("position", INTEGER),
    always("kind"),
    Column("schema_name", VARCHAR),
    always("name"),
    Column("statement", VARCHAR),
    Column("note", VARCHAR),
    key=("database_name", "position"),
    references=(Reference("database", "databases", ("database_name",), "definitions"),),
    doc=(
        "The statements that create each database as your role sees it, in an order that runs, with full names: the stores, schema "
        "registries, functions and secrets that it uses, and then its schemas, relations and queries. `headrace export` writes them to "
        "files. A query's statement is the one that created or replaced it. Secrets are `****`; `note` reports what is missing, and "
        "`statement` is NULL if all of it is. Grants, owners and terminated INSERT INTO queries are left out."
    ),
    matching=_matching,
)
def definitions(run: Execution) -> Rows:
    return _matching(run, ())
