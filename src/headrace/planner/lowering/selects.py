"""Whole SELECTs that keep their rows apart: select lists and UNION ALL."""

from __future__ import annotations

from dataclasses import replace

from headrace.analyzer.expressions import ColumnReference
from headrace.analyzer.logical import Aggregate, Project, Union
from headrace.analyzer.traits import traits
from headrace.core.internal_columns import DELETED, KEY_BYTES, OP, PREFIX, ROW_TIME
from headrace.planner.expression_sql import ExpressionSql
from headrace.planner.lowering.context import ADDED, Lowering, Wants, places
from headrace.planner.lowering.fragments import Fragment, Rows, exact, select
from headrace.planner.modes import Mode, Operator
from headrace.planner.spark_sql import identifier

UNSELECTED_KEY = f"{PREFIX}unselected_key"


def project(low: Lowering, operator: Operator, node: Project, wants: Wants) -> Rows:
    """Lower a select list."""
    (below,) = operator.inputs
    needed = places(*(item.expression for item in node.items))
    if wants.unselected_key:
        needed |= frozenset(below.traits.key or ())
    if wants.carried_key and low.carrying is not None:
        needed |= {(low.carrying.alias, KEY_BYTES)}
    fragment = low.fragment(below, needed)
    ended = fragment.ended()
    columns = select_list(node, fragment.sql(), ended) + hidden_columns(low, fragment, wants)
    if wants.unselected_key:
        key_columns = ", ".join(fragment.column(*place) for place in below.traits.key or ())
        columns.append(f"struct({key_columns}) AS {identifier(UNSELECTED_KEY)}")
    timed = wants.time and fragment.hidden.time is not None
    return Rows(
        select(columns, fragment.text, fragment.where()),
        fragment.mode,
        fragment.inputs,
        timed=timed,
        marked=fragment.hidden.marked or not timed,
        deleted=ended is not None,
    )


def select_list(node: Project | Aggregate, sql: ExpressionSql, ended: str | None) -> list[str]:
    """Return the items. Where `ended` is true an upsert ends its key, and no expression is evaluated but the key's: what WHERE keeps
    away from an expression, such as a zero, must not reach it there either."""
    key = {name for _, name in traits(node).key or ()}
    columns = []
    for item in node.items:
        text = exact(item, sql)
        if ended and not isinstance(item.expression, ColumnReference) and item.name not in key:
            text = f"if({ended}, NULL, {text})"
        columns.append(f"{text} AS {identifier(item.name)}")
    return columns


def hidden_columns(low: Lowering, fragment: Fragment, wants: Wants) -> list[str]:
    """Return the hidden columns of a select list, in the order in which every branch of a UNION has them."""
    columns = low.carried_key(fragment) if wants.carried_key else []
    if wants.time and fragment.hidden.time is not None:
        columns.append(f"{fragment.hidden.time} AS {identifier(ROW_TIME)}")
    if fragment.mode is Mode.SIGNED:
        columns.append(f"{fragment.hidden.op} AS {identifier(OP)}")
    elif wants.op:
        columns.append(ADDED)
    if (ended := fragment.ended()) is not None:
        columns.append(f"{ended} AS {identifier(DELETED)}")
    return columns


def union(low: Lowering, operator: Operator, node: Union, wants: Wants) -> Rows:
    """Lower UNION ALL."""
    inner = replace(
        wants,
        time=wants.time and all(traits(branch).timed for branch in node.branches),
        op=operator.mode is Mode.SIGNED or wants.op,
    )
    branches = []
    for number, below in enumerate(operator.inputs, 1):
        with low.within(f"u{number}"):
            branch_rows = low.rows(below, inner)
            if not branch_rows.marked and branch_rows.timed:
                # One branch's computed time would take the watermark from all.
                step = low.transform(low.name("timed"), branch_rows.text, branch_rows.inputs, marked=False)
                branch_rows = replace(
                    branch_rows, text=select(["*"], identifier(step)), inputs=[step], marked=True
                )
            branches.append(branch_rows)
    return Rows(
        "\nUNION ALL\n".join(branch.text for branch in branches),
        operator.mode,
        [step for branch in branches for step in branch.inputs],
        timed=all(branch.timed for branch in branches),
    )
