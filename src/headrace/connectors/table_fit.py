"""Comparison of a relation with an existing table, and the errors where they differ.

`actual_types` maps the names of the table's columns, as its store writes them, to their types; `shown` prints a type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from headrace.core.errors import UserError
from headrace.core.names import EntityPath, path_text, printed
from headrace.core.schema import Column, Schema
from headrace.core.sqlstate import SqlState
from headrace.core.types import DataType
from headrace.core.wording import with_article
from headrace.formats.json import wrong_map

Theirs = TypeVar("Theirs")


def check_written(
    path: EntityPath,
    schema: Schema,
    actual_types: Mapping[str, Theirs],
    fits: Callable[[DataType, Theirs], bool],
    shown: Callable[[Theirs], str] = str,
) -> None:
    """Raises UserError 42703 for columns that the table does not have, 42P16 for those that do not take what may come."""
    _check_names(path, schema, actual_types)
    wrong = [
        f"{printed(column.name)} is {shown(actual_types[column.name])}, which does not accept {column.type}"
        for column in schema.columns
        if not fits(column.type, actual_types[column.name])
    ]
    if wrong:
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            f"the table {path_text(path)} exists with other columns: {'; '.join(wrong)}",
            hint="CAST the columns of the query, or name another table.",
        )


def check_key(path: EntityPath, schema: Schema, key: Sequence[str]) -> None:
    """Raises UserError 42P16 when the table's primary key is another one than that of `schema`."""
    if set(schema.primary_key) != set(key):
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            f"the primary key of the table {path_text(path)} is ({', '.join(map(printed, key))}), "
            f"and rows are to be updated by ({', '.join(map(printed, schema.primary_key))})",
            hint="Write a query with that key, or name another table.",
        )


def check_json(path: EntityPath, columns: Sequence[Column]) -> None:
    """Raise UserError 42P16 for a column that is JSON in the table and has a MAP whose keys JSON does not hold."""
    for column in columns:
        wrong = wrong_map(column.type)
        if wrong is not None:
            raise UserError(
                SqlState.INVALID_RELATION_DEFINITION,
                f"the column {printed(column.name)} of the table {path_text(path)} is JSON, which does not hold "
                f"{with_article(str(wrong))}: the names in its objects are texts, numbers and booleans",
                hint="CAST the keys of the map to VARCHAR.",
            )


def check_read(
    path: EntityPath,
    schema: Schema,
    actual_types: Mapping[str, Theirs],
    reads: Callable[[DataType, Theirs], bool],
    shown: Callable[[Theirs], str] = str,
) -> None:
    """Raises UserError 42703 for columns that the table does not have, 42P16 for those that cannot be read as `schema` says."""
    _check_names(path, schema, actual_types)
    wrong = [
        f"{printed(column.name)} is {shown(actual_types[column.name])}, which is not {with_article(str(column.type))}"
        for column in schema.columns
        if not reads(column.type, actual_types[column.name])
    ]
    if wrong:
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            f"the table {path_text(path)} has other columns: {'; '.join(wrong)}",
            hint="Declare the columns with the types that DESCRIBE ENTITY shows, or leave them out: they are inferred then.",
        )


def _check_names(path: EntityPath, schema: Schema, actual_types: Mapping[str, object]) -> None:
    missing = [printed(column.name) for column in schema.columns if column.name not in actual_types]
    if missing:
        raise UserError(
            SqlState.UNDEFINED_COLUMN,
            f"the table {path_text(path)} has no column {', '.join(missing)}",
            hint=f"It has {', '.join(map(printed, actual_types))}. Names fold to lower case unless they are in double quotes.",
        )
