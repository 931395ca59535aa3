"""Shared context of a query's lowering: the steps so far, their names, and how a fragment is cut into a step."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from headrace.analyzer.expressions import Expression, SortKey, references
from headrace.analyzer.logical import LogicalNode, Scan
from headrace.analyzer.traits import Place, RowWindow
from headrace.core.internal_columns import DELETED, KEY_BYTES, OP, PREFIX, ROW_TIME
from headrace.planner import physical
from headrace.planner.lowering.fragments import Fragment, Hidden, Rows, select
from headrace.planner.modes import Mode, Operator
from headrace.planner.spark_sql import identifier

ADDED = f"CAST(1 AS TINYINT) AS {identifier(OP)}"
"""Of a row that only comes, on a signed edge."""

Needed = frozenset[Place]
"""The columns of a fragment that something above it reads."""


@dataclass(frozen=True)
class Wants:
    """The hidden columns that a consumer wants of a SELECT: event time; `OP` even of rows that only come; the carried key; the
    key of the rows, under the name `UNSELECTED_KEY`, where the SELECT does not select it."""

    time: bool = False
    op: bool = False
    carried_key: bool = False
    unselected_key: bool = False


@dataclass
class Lowering:
    """Lowering of a query to steps. `time`: rows keep their event time; `watermarked`: a watermark follows it; `append_only`: Spark's
    own operators must emit final rows only; `carrying` is the source whose record keys are kept; `windows` maps a scan's identity to
    the windows, or the pattern, that its rows go into. `calls_users`: the query calls functions of users.
    `outputs` are those beside the sink. `groupings` are the aggregations in the SQL of the steps.

    Of a query in an application, `names` are the ids that all its queries have used, `shared` names the reading of the query's one
    source where others read it too: the steps of that have the same ids in each of them.
    """

    fragments: Mapping[type[LogicalNode], Callable[..., Fragment]]
    selects: Mapping[type[LogicalNode], Callable[..., Rows]]
    time: bool
    watermarked: bool
    append_only: bool
    interactive: bool = False
    calls_users: bool = False
    state_ttl_ms: int = 0
    carrying: Scan | None = None
    windows: Mapping[int, RowWindow] = field(default_factory=dict)
    steps: list[physical.Step] = field(default_factory=list)
    outputs: list[physical.WriteEntity] = field(default_factory=list)
    groupings: list[physical.Grouping] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    shared: str | None = None
    updates: bool = False
    path: tuple[str, ...] = ()

    def fragment(self, operator: Operator, needed: Needed) -> Fragment:
        """Return the fragment that reads `operator` in FROM; `needed` are the columns that are read of it."""
        return self.fragments[type(operator.node)](self, operator, operator.node, needed)

    def rows(self, operator: Operator, wants: Wants) -> Rows:
        """Return the SELECT of an operator."""
        return self.selects[type(operator.node)](self, operator, operator.node, wants)

    @contextmanager
    def within(self, name: str) -> Iterator[None]:
        """Prefix the names of the steps made inside with `name`."""
        path, self.path = self.path, (*self.path, name)
        try:
            yield
        finally:
            self.path = path

    def name(self, what: str, of: str = "") -> str:
        """Return an id for a step, by what it does and where in the statement it comes from."""
        return unused("_".join(map(_plain, [what, *self.path, *([of] if of else [])])), self.names)

    def source_name(self, what: str, of: Scan) -> str:
        """Return an id for a step that reads a source."""
        return self.name(what, of.alias) if self.shared is None else f"{what}_{self.shared}"

    def add(self, step: Any) -> str:
        """Add a step as the last one, and return its id."""
        self.steps.append(step)
        return str(step.id)

    def transform(self, name: str, text: str, inputs: Sequence[str], *, marked: bool = True) -> str:
        """Add a SELECT as a step. Without `marked` its event time is computed, and must be marked as such."""
        return self.add(
            physical.SqlTransform(
                id=name,
                inputs=list(dict.fromkeys(inputs)),
                sql=text,
                event_time=None if marked or not self.watermarked else ROW_TIME,
            )
        )

    # --- cutting

    def flat(self, name: str, fragment: Fragment, needed: Needed, more: Sequence[str] = ()) -> str:
        """Return a fragment of one source as a step whose columns have the names of the source's."""
        (source,) = fragment.sources
        names = [column for alias, column in sorted(needed) if alias == source.alias and column != ROW_TIME]
        ordered = [column for column in source.schema.names if column in names]
        ordered += [column for column in names if column not in ordered]
        columns = [f"{fragment.column(source.alias, column)} AS {identifier(column)}" for column in ordered]
        return self._cut(name, fragment, [*columns, *more])

    def structs(self, name: str, fragment: Fragment, needed: Needed, more: Sequence[str] = ()) -> str:
        """Return a fragment as a step with a STRUCT for each source, of the columns that are needed."""
        return self._cut(name, fragment, [*self.struct_columns(fragment, needed), *more])

    @staticmethod
    def struct_columns(fragment: Fragment, needed: Needed) -> list[str]:
        """Return a STRUCT for each source of a fragment, of the columns that are needed."""
        columns = []
        for source in fragment.sources:
            names = [column for alias, column in needed if alias == source.alias]
            ordered = [column for column in source.schema.names if column in names]
            ordered += sorted(column for column in names if column not in ordered)
            parts = [f"{fragment.column(source.alias, column)} AS {identifier(column)}" for column in ordered]
            if parts:
                columns.append(f"struct({', '.join(parts)}) AS {identifier(source.alias)}")
        return columns

    def _cut(self, name: str, fragment: Fragment, columns: list[str]) -> str:
        hidden = self.hidden(fragment)
        text = select([*columns, *hidden] or ["1"], fragment.text, fragment.where())
        return self.transform(name, text, fragment.inputs, marked=fragment.hidden.marked)

    def hidden(self, fragment: Fragment) -> list[str]:
        """Return the hidden columns that a fragment's rows take along."""
        columns = []
        if self.time and fragment.hidden.time is not None:
            columns.append(f"{fragment.hidden.time} AS {identifier(ROW_TIME)}")
        if fragment.mode is Mode.SIGNED:
            columns.append(f"{fragment.hidden.op} AS {identifier(OP)}")
        if fragment.mode is Mode.UPSERT:
            columns.append(f"{fragment.ended() or 'false'} AS {identifier(DELETED)}")
        return columns

    def over_structs(self, step: str, fragment: Fragment, mode: Mode) -> Fragment:
        """Return the output of a step whose columns are STRUCTs by source."""
        return self._over(step, identifier(step), fragment, mode)

    def over_source(self, step: str, fragment: Fragment, mode: Mode) -> Fragment:
        """Return the output of a step that has the columns of the fragment's one source."""
        fragment_over = self._over(step, identifier(fragment.sources[0].alias), fragment, mode)
        fragment_over.text, fragment_over.table = (
            f"{identifier(step)} AS {identifier(fragment.sources[0].alias)}",
            identifier(step),
        )
        return fragment_over

    def _over(self, step: str, table: str, fragment: Fragment, mode: Mode) -> Fragment:
        timed = self.time and fragment.hidden.time is not None
        return Fragment(
            text=identifier(step),
            mode=mode,
            sources=fragment.sources,
            inputs=[step],
            hidden=Hidden(
                time=f"{table}.{identifier(ROW_TIME)}" if timed else None,
                deleted=f"{table}.{identifier(DELETED)}" if mode is Mode.UPSERT else None,
                op=f"{table}.{identifier(OP)}" if mode is Mode.SIGNED else None,
            ),
        )

    def marked(self, fragment: Fragment, needed: Needed) -> Fragment:
        """Return the fragment with an event time that is a column with a watermark: what Spark's own operators ask for."""
        if fragment.hidden.marked and not fragment.conditions and fragment.table is not None:
            return fragment
        return self.cut("timed", fragment, needed)

    def cut(self, what: str, fragment: Fragment, needed: Needed) -> Fragment:
        """Return the fragment as a step of its own, which `what` names, with the columns that are needed."""
        name = self.name(what, fragment.sources[-1].alias)
        if len(fragment.sources) == 1:
            return self.over_source(self.flat(name, fragment, needed), fragment, fragment.mode)
        return self.over_structs(self.structs(name, fragment, needed), fragment, fragment.mode)

    def carried_key(self, fragment: Fragment) -> list[str]:
        """Return the key of the source's record, for the sink's."""
        if self.carrying is None or self.carrying.alias not in fragment.aliases:
            return []
        return [f"{fragment.column(self.carrying.alias, KEY_BYTES)} AS {identifier(KEY_BYTES)}"]


def order_keys(keys: Sequence[SortKey], column: Callable[[Expression, str], str]) -> list[physical.OrderKey]:
    """Return the keys of an order, each a column of its own that `column` makes of an expression under a name."""
    return [
        physical.OrderKey(
            column=column(key.expression, f"{PREFIX}order_{number}"),
            descending=key.descending,
            # As Flink, NULL is the smallest where the statement does not say.
            nulls_first=not key.descending if key.nulls_first is None else key.nulls_first,
        )
        for number, key in enumerate(keys, 1)
    ]


def unused(base: str, names: set[str]) -> str:
    """Return `base`, with a number if `names` contains it, and add it to them."""
    name, number = base, 1
    while name in names:
        number += 1
        name = f"{base}_{number}"
    names.add(name)
    return name


def _plain(part: str) -> str:
    return re.sub(r"\W", "_", part.removeprefix(PREFIX), flags=re.ASCII).strip("_")


def places(*expressions: Expression) -> Needed:
    """Return the columns that expressions read."""
    return frozenset(
        (reference.source, reference.column) for part in expressions for reference in references(part)
    )
