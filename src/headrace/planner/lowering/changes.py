"""Conversion of upserts into signed rows, and of signed rows into upserts."""

from __future__ import annotations

from dataclasses import replace

from headrace.analyzer.logical import Change, FromChangelog, ToChangelog
from headrace.analyzer.traits import Place
from headrace.core.internal_columns import DELETED, OP, ROW_TIME, SEQUENCE
from headrace.planner import physical
from headrace.planner.lowering.context import Lowering, Needed, Wants, places
from headrace.planner.lowering.fragments import Fragment, Rows, indented, select
from headrace.planner.modes import Materialize, Mode, Normalize, Operator
from headrace.planner.spark_sql import identifier, text_literal

UNKNOWN_CHANGE = "FROM_CHANGELOG reads an operation that op_mapping does not name"
_SIGNS = {Change.INSERT: 1, Change.UPDATE_BEFORE: -2, Change.UPDATE_AFTER: 2, Change.DELETE: -1}


def normalized(low: Lowering, operator: Operator, _node: Normalize, needed: Needed) -> Fragment:
    """Normalize the upserts of a source in FROM."""
    key = operator.traits.key or ()
    below = low.fragment(operator.inputs[0], needed | frozenset(key))
    alias = below.sources[0].alias
    more = [f"{below.hidden.sequence} AS {identifier(SEQUENCE)}"] if below.hidden.sequence else []
    step = low.flat(low.name("upserts", alias), below, needed | frozenset(key), more)
    step_id = _normalize(low, step, key, alias, sequence=bool(more))
    return low.over_source(step_id, below, Mode.SIGNED)


def to_changelog(low: Lowering, operator: Operator, node: ToChangelog, needed: Needed) -> Fragment:
    """Lower TO_CHANGELOG: the changes that a Normalize finds, each with the code of its kind."""
    (source,) = node.sources
    alias, key = source.alias, operator.inputs[0].traits.key or ()
    needed = frozenset(place for place in needed if place[1] != node.operation)
    codes = {change: text_literal(code) for change, code in node.codes}
    below = low.fragment(operator.inputs[0], needed | frozenset(key))
    if below.mode is Mode.INSERT:
        step = low.flat(low.name("changes", alias), below, needed)
        code, where = codes.get(Change.INSERT, "NULL"), [] if Change.INSERT in codes else ["false"]
    else:
        more = [f"{below.hidden.sequence} AS {identifier(SEQUENCE)}"] if below.hidden.sequence else []
        flat = low.flat(low.name("upserts", alias), below, needed | frozenset(key), more)
        step = _normalize(low, flat, key, alias, sequence=bool(more), kinds=True)
        signs = {_SIGNS[change]: code for change, code in codes.items()}
        cases = " ".join(f"WHEN {sign} THEN {code}" for sign, code in signs.items())
        code, where = (
            f"CASE {identifier(OP)} {cases} END",
            [f"{identifier(OP)} IN ({', '.join(map(str, signs))})"],
        )
    columns = [identifier(name) for name in source.schema.names if (alias, name) in needed]
    text = select([f"{code} AS {identifier(node.operation)}", *columns], identifier(step), where)
    table = f"(\n{indented(text)}\n)"
    return Fragment(f"{table} AS {identifier(alias)}", Mode.INSERT, node.sources, [step], table=table)


def from_changelog(low: Lowering, operator: Operator, node: FromChangelog, needed: Needed) -> Fragment:
    """Lower FROM_CHANGELOG: the code of each row is the sign with which it is added or taken away, or says that its key ends."""
    below = low.fragment(operator.inputs[0], needed | places(node.operation))
    code = below.sql().text(node.operation)

    def chosen(added: str, removed: str, kind: str) -> str:
        values = {
            change: added if change in (Change.INSERT, Change.UPDATE_AFTER) else removed
            for _, change in node.changes
        }
        cases = " ".join(f"WHEN {text_literal(text)} THEN {values[change]}" for text, change in node.changes)
        return f"CASE {code} {cases} ELSE CAST(raise_error('{UNKNOWN_CHANGE}') AS {kind}) END"

    if operator.mode is Mode.UPSERT:
        hidden = replace(below.hidden, deleted=chosen("false", "true", "BOOLEAN"))
    else:
        hidden = replace(below.hidden, op=chosen("CAST(1 AS TINYINT)", "CAST(-1 AS TINYINT)", "TINYINT"))
    return replace(below, mode=operator.mode, sources=node.sources, hidden=hidden, table=None)


def normalized_rows(low: Lowering, operator: Operator, node: Normalize, wants: Wants) -> Rows:
    """Normalize the upserts of a SELECT. They have no sign yet, even if the consumer wants one."""
    below = low.rows(operator.inputs[0], replace(wants, op=False))
    step = low.transform(low.name("upserts"), below.text, below.inputs, marked=below.marked)
    step_id = _normalize(low, step, operator.traits.key or (), "", sequence=False, deleted=below.deleted)
    return _over(step_id, node.schema.names, below, OP, Mode.SIGNED)


def _normalize(
    low: Lowering,
    step: str,
    key: tuple[Place, ...],
    of: str,
    *,
    sequence: bool,
    deleted: bool = True,
    kinds: bool = False,
) -> str:
    return low.add(
        physical.Normalize(
            id=low.name("normalized", of),
            input=step,
            keys=[name for _, name in key],
            deleted=DELETED if deleted else None,
            sequence=SEQUENCE if sequence else None,
            kinds=kinds,
            state_ttl_ms=low.state_ttl_ms,
        )
    )


def materialized_rows(low: Lowering, operator: Operator, node: Materialize, wants: Wants) -> Rows:
    """Materialize the signed rows of a SELECT by their key."""
    below = low.rows(operator.inputs[0], wants)
    step = low.transform(low.name("signed"), below.text, below.inputs, marked=below.marked)
    step_id = low.add(
        physical.Materialize(
            id=low.name("materialized"),
            input=step,
            keys=[name for _, name in operator.traits.key or ()],
            state_ttl_ms=low.state_ttl_ms,
        )
    )
    return _over(step_id, node.schema.names, below, DELETED, Mode.UPSERT)


def _over(step: str, names: tuple[str, ...], below: Rows, flag: str, mode: Mode) -> Rows:
    hidden = [*([ROW_TIME] if below.timed else []), flag]
    columns = [f"{identifier(name)}" for name in (*names, *hidden)]
    return Rows(
        select(columns, identifier(step)), mode, [step], timed=below.timed, deleted=mode is Mode.UPSERT
    )
