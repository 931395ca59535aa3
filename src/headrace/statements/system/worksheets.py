"""Worksheets as a system relation."""

from __future__ import annotations

from headrace.core.schema import Column
from headrace.core.types import BIGINT, BOOLEAN, TIMESTAMP, VARCHAR
from headrace.statements.base import Execution
from headrace.statements.system.relation import Rows, always, system_relation


@system_relation(
    "worksheets",
    always("id"),
    always("name"),
    always("text"),
    always("is_open", BOOLEAN),
    always("version", BIGINT),
    Column("role_name", VARCHAR),
    Column("database_name", VARCHAR),
    Column("schema_name", VARCHAR),
    Column("store_name", VARCHAR),
    Column("compute_pool_name", VARCHAR),
    always("created_at", TIMESTAMP),
    always("updated_at", TIMESTAMP),
    key=("id",),
    doc=(
        "The worksheets of your user: the tabs of the console's editor, with the names that their text is run in. A closed one, with "
        "`is_open` false, can be opened again. `version` counts how often it was saved. A session with an API token of one role has "
        "worksheets of its own."
    ),
)
def worksheets(run: Execution) -> Rows:
    for sheet in run.catalog.worksheets.of(run.principal):
        content = sheet.content
        yield (
            sheet.id,
            content.name,
            content.text,
            sheet.is_open,
            sheet.version,
            content.role,
            content.database,
            content.schema,
            content.store,
            content.compute_pool,
            sheet.created_at,
            sheet.updated_at,
        )
