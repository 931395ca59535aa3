"""Conversion of upserts into signed rows, and of signed rows into upserts."""

from __future__ import annotations

from dataclasses import replace

from headrace.analyzer.traits import Place
from headrace.core.internal_columns import DELETED, OP, ROW_TIME, SEQUENCE
from headrace.planner import physical
from headrace.planner.lowering.context import Lowering, Needed, Wants
from headrace.planner.lowering.fragments import Fragment, Rows, select
from headrace.planner.modes import Materialize, Mode, Normalize, Operator
from headrace.planner.spark_sql import identifier


def normalized(low: Lowering, operator: Operator, _node: Normalize, needed: Needed) -> Fragment:
    """Normalize the upserts of a source in FROM."""
    key = operator.traits.key or ()
    below = low.fragment(operator.inputs[0], needed | frozenset(key))
    alias = below.sources[0].alias
    more = [f"{below.hidden.sequence} AS {identifier(SEQUENCE)}"] if below.hidden.sequence else []
    step = low.flat(low.name("upserts", alias), below, needed | frozenset(key), more)
    step_id = _normalize(low, step, key, alias, sequence=bool(more))
    return low.over_source(step_id, below, Mode.SIGNED)


def normalized_rows(low: Lowering, operator: Operator, node: Normalize, wants: Wants) -> Rows:
    """Normalize the upserts of a SELECT. They have no sign yet, even if the consumer wants one."""
    below = low.rows(operator.inputs[0], replace(wants, op=False))
    step = low.transform(low.name("upserts"), below.text, below.inputs, marked=below.marked)
    step_id = _normalize(low, step, operator.traits.key or (), "", sequence=False, deleted=below.deleted)
    return _over(step_id, node.schema.names, below, OP, Mode.SIGNED)


def _normalize(
    low: Lowering, step: str, key: tuple[Place, ...], of: str, *, sequence: bool, deleted: bool = True
) -> str:
    return low.add(
        physical.Normalize(
            id=low.name("normalized", of),
            input=step,
            keys=[name for _, name in key],
            deleted=DELETED if deleted else None,
            sequence=SEQUENCE if sequence else None,
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
