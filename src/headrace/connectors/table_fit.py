"""Whether a relation and a table that is there fit each other, and what a user is told where they do not.

`there` are the table's columns: by the name that each has here, its type as the store writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headrace.core.errors import UserError
from headrace.core.names import EntityPath, path_text, printed
from headrace.core.schema import Schema
from headrace.core.sqlstate import SqlState
from headrace.core.types import DataType

Fits = Callable[[DataType, str], bool]
"""Of a type of ours and a type as the store writes it."""


def check_written(path: EntityPath, schema: Schema, there: Mapping[str, str], fits: Fits) -> None:
    """Raises UserError 42703 for columns that the table does not have, 42P16 for those that do not take what may come."""
    _check_names(path, schema, there)
    wrong = [
        f"{printed(column.name)} is {there[column.name]}, which does not take {column.type}"
        for column in schema.columns
        if not fits(column.type, there[column.name])
    ]
    if wrong:
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            f"the table {path_text(path)} exists with other columns: {'; '.join(wrong)}",
            hint="CAST the columns of the query, or name another table.",
        )


def check_key(path: EntityPath, schema: Schema, key: Sequence[str]) -> None:
    """Raises UserError 42P16 when the table has a primary key, and it is another one than that of `schema`."""
    if key and set(schema.primary_key) != set(key):
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            f"the primary key of the table {path_text(path)} is ({', '.join(map(printed, key))}), "
            f"and rows are to be updated by ({', '.join(map(printed, schema.primary_key))})",
            hint="Write a query with that key, or name another table.",
        )


def check_read(path: EntityPath, schema: Schema, there: Mapping[str, str], reads: Fits) -> None:
    """Raises UserError 42703 for columns that the table does not have, 42P16 for those that cannot be read as `schema` says."""
    _check_names(path, schema, there)
    wrong = [
        f"{printed(column.name)} is {there[column.name]}, which is no {column.type}"
        for column in schema.columns
        if not reads(column.type, there[column.name])
    ]
    if wrong:
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            f"the table {path_text(path)} has other columns: {'; '.join(wrong)}",
            hint="Create the relation again, with the types that DESCRIBE ENTITY shows.",
        )


def _check_names(path: EntityPath, schema: Schema, there: Mapping[str, str]) -> None:
    missing = [printed(column.name) for column in schema.columns if column.name not in there]
    if missing:
        raise UserError(
            SqlState.UNDEFINED_COLUMN,
            f"the table {path_text(path)} has no column {', '.join(missing)}",
            hint=f"It has {', '.join(map(printed, there))}.",
        )
