"""TO_CHANGELOG and FROM_CHANGELOG: a changelog as a stream of its changes, and a stream of changes as a changelog."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.analyzer.expressions import ColumnReference
from headrace.analyzer.logical import Change, FromChangelog, LogicalNode, ToChangelog
from headrace.analyzer.scope import Scope
from headrace.analyzer.sources import is_snapshot
from headrace.analyzer.traits import traits
from headrace.analyzer.typing import is_text
from headrace.core.errors import UserError
from headrace.core.names import printed
from headrace.core.sqlstate import SqlState
from headrace.sql.ast import ChangelogFunction, span_of

_OPERATION = "op"
_CHANGES = {change.name: change for change in Change}


def converted(node: ChangelogFunction, rows: LogicalNode) -> LogicalNode:
    """Return the rows of a call in FROM.

    Raises UserError 42601 for a mapping that is none, 42703 and 42804 for the columns, 42P16 for two columns of one name, 0A000 for
    rows that such a call does not accept.
    """
    if is_snapshot(rows):
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"{node.function} requires a stream or a changelog: these rows have no changes",
            span=span_of(node),
        )
    return _to_changelog(node, rows) if node.args["kind"] == "TO" else _from_changelog(node, rows)


def _to_changelog(node: ChangelogFunction, rows: LogicalNode) -> ToChangelog:
    """Return the changes of rows; the key, then the operation, then the other columns."""
    operation = node.args.get("op")
    name = operation.name if operation is not None else _OPERATION
    if rows.schema.column(name) is not None:
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            f"the rows have a column {printed(name)} already",
            hint="Write op => DESCRIPTOR(name) with another name for the operation.",
            span=span_of(operation) if operation is not None else span_of(node),
        )
    codes: dict[Change, str] = {}
    for names, code in _mapping(node).items():
        codes |= {_change(part, node): code for part in _parts(names)}
    return ToChangelog(rows, name, _partition(node, rows), tuple(codes.items()), span_of(node))


def _from_changelog(node: ChangelogFunction, rows: LogicalNode) -> FromChangelog:
    """Return the rows whose changes these rows are."""
    if not traits(rows).insert_only:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"{node.function} takes a STREAM, whose rows are changes; these rows change themselves",
            span=span_of(node),
        )
    operation, (source,) = node.args.get("op"), rows.sources
    span = span_of(operation) if operation is not None else span_of(node)
    column = Scope(rows.sources).column(
        operation.name if operation is not None else _OPERATION, alias=source.alias, span=span
    )
    if not isinstance(column, ColumnReference) or not is_text(column.type):
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            f"the operation must be a VARCHAR, found {column.type}",
            hint="CAST it in a subquery, and name it with op => DESCRIPTOR(column).",
            span=span,
        )
    changes: dict[str, Change] = {}
    for codes, change in _mapping(node).items():
        changes |= {code: _change(change, node) for code in _parts(codes)}
    key = _partition(node, rows)
    updates = Change.UPDATE_BEFORE in changes.values()
    if not key and not updates and Change.UPDATE_AFTER in changes.values():
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "without UPDATE_BEFORE, an update names its old row by a key",
            hint="Write input => TABLE relation PARTITION BY key, or map an operation to UPDATE_BEFORE.",
            span=span_of(node),
        )
    return FromChangelog(
        rows, column, key, tuple(changes.items()), upserts=bool(key) and not updates, span=span_of(node)
    )


def _partition(node: ChangelogFunction, rows: LogicalNode) -> tuple[str, ...]:
    (source,) = rows.sources
    names = node.args.get("partition_by") or []
    for name in names:
        Scope(rows.sources).column(name.name, alias=source.alias, span=span_of(name))
    return tuple(dict.fromkeys(name.name for name in names))


def _mapping(node: ChangelogFunction) -> Mapping[str, str]:
    """Return the pairs of op_mapping; without one, each change is its own code."""
    texts = [text.name for text in node.args.get("mapping") or []]
    if not texts:
        return {name: name for name in _CHANGES}
    return dict(zip(texts[::2], texts[1::2], strict=True))


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _change(name: str, node: ChangelogFunction) -> Change:
    change = _CHANGES.get(name.strip())
    if change is None:
        raise UserError(
            SqlState.SYNTAX_ERROR,
            f"op_mapping of {node.function} has no change {name!r}",
            hint=f"The changes are {', '.join(_CHANGES)}.",
            span=span_of(node),
        )
    return change
