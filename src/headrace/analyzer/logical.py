"""The nodes of a logical plan: a small relational tree, typed. What is known of a node's rows is in `traits`.

Nodes below a `Project` or `Aggregate` still see columns by source alias (`expressions.ColumnReference`); a `Project` or
`Aggregate` gives a plain schema. `Subquery` turns such a schema into a source again. Times are milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Literal

from headrace.analyzer.expressions import ColumnReference, Expression, Over, SortKey
from headrace.catalog.objects import Relation
from headrace.core.errors import Span
from headrace.core.internal_columns import PREFIX
from headrace.core.names import EntityPath
from headrace.core.schema import Column, Schema
from headrace.core.types import BIGINT, VARCHAR, Array, DataType, Struct, Timestamp
from headrace.formats.base import TimestampFormat

WINDOW_START = "window_start"
WINDOW_END = "window_end"
WINDOW_TIME = "window_time"
WINDOW_COLUMNS = (
    Column(WINDOW_START, Timestamp(3), nullable=False),
    Column(WINDOW_END, Timestamp(3), nullable=False),
    Column(WINDOW_TIME, Timestamp(3), nullable=False),
)


class JoinKind(Enum):
    """Kinds of joins. A value is the dialect's word; IN and EXISTS become SEMI, their negations ANTI."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    CROSS = "cross"
    SEMI = "semi"
    ANTI = "anti"


class WindowKind(Enum):
    """The time windows that are supported."""

    TUMBLE = "TUMBLE"
    HOP = "HOP"
    CUMULATE = "CUMULATE"
    SESSION = "SESSION"


@dataclass(frozen=True)
class EventTime:
    """Origin of a source's event time, a column or (None) the record's own time; and its watermark.

    `ahead_ms` is how far ahead of the clock an event time may be; 0: any may be.
    """

    column: str | None = None
    delay_ms: int = 0
    idle_timeout_ms: int = 0
    ahead_ms: int = 86_400_000
    arrival: bool = False
    arrival_span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True)
class SideTopic:
    """Topic for those records of a source that a query leaves out. `layout` is set if it is missing; `property` names the property with
    the topic."""

    store: str
    store_type: str
    entity: EntityPath
    property: str
    layout: Mapping[str, str] = field(default_factory=dict)
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True)
class SourceProperties:
    """The source properties in force (dialect 11.1): the relation's own, overridden by those of the query.

    `refresh_ms` is of a TABLE that a stream is joined with: how often it is read whole; None: its rows are asked for by key.
    `on_error` is terminate, ignore, or dead_letter, and `on_function_error` terminate, null, ignore, or dead_letter; if one is dead_letter,
    `dead_letters` says where. `late_rows` says where rows go that are too
    late for a time window; None: nowhere. `timestamps` is the layout that times must have; None: what the relation's format says.
    `has_position` is true if the starting position is specified.
    """

    starting_position: str = "latest"
    starting_timestamp_ms: int | None = None
    has_position: bool = False
    event_time: EventTime = EventTime()
    on_error: str = "terminate"
    on_function_error: str = "terminate"
    dead_letters: SideTopic | None = None
    late_rows: SideTopic | None = None
    timestamps: TimestampFormat | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    refresh_ms: int | None = None


@dataclass(frozen=True)
class ResumeFrom:
    """Origin of a new query: a savepoint by its name, or a query that has ended, by its id, or by its name and its version."""

    savepoint: str | None = None
    query_id: str | None = None
    query_name: str | None = None
    query_version: int | None = None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True)
class QueryProperties:
    """The query properties (dialect 10.2)."""

    state_ttl_ms: int = 0
    name: str | None = None
    resume: ResumeFrom | None = None
    replacement: str = "compatible"
    execution_mode: str | None = None
    execution_mode_span: Span | None = field(default=None, compare=False)
    state_partitions: int | None = None
    state_partitions_span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Item:
    """An output column: its name and its expression."""

    name: str
    expression: Expression

    @property
    def column(self) -> Column:
        """The item as a column of a schema."""
        return Column(self.name, self.expression.type, self.expression.nullable)


@dataclass(frozen=True)
class SourceColumns:
    """The columns that one source of FROM brings under its alias; `relation` is None for a subquery.

    `metadata` is what its store says of where a row stands; `headers` is whether its rows are of records that may have some.
    """

    alias: str
    schema: Schema
    relation: Relation | None = None
    key_type: DataType | None = None
    metadata: Struct | None = None
    hidden: bool = True
    headers: bool = False


class LogicalNode:
    """Base of all nodes."""

    @property
    def inputs(self) -> tuple[LogicalNode, ...]:
        """The nodes that this one reads."""
        return tuple(value for name in _field_names(type(self)) for value in _nodes(getattr(self, name)))

    @property
    def sources(self) -> tuple[SourceColumns, ...]:
        """The sources that expressions above this node may name."""
        return tuple(source for node in self.inputs for source in node.sources)

    @property
    def schema(self) -> Schema:
        """The columns, in order."""
        return Schema(tuple(column for source in self.sources for column in source.schema.columns))


_FIELD_NAMES: dict[object, tuple[str, ...]] = {}


def _field_names(kind: type[LogicalNode]) -> tuple[str, ...]:
    """Return the names of a node's fields. `dataclasses.fields` computes them anew at each of the thousand visits of a short query."""
    names = _FIELD_NAMES.get(kind)
    if names is None:
        names = _FIELD_NAMES[kind] = tuple(item.name for item in fields(kind))  # type: ignore[arg-type]
    return names


def _nodes(value: object) -> tuple[LogicalNode, ...]:
    if isinstance(value, LogicalNode):
        return (value,)
    if isinstance(value, tuple):
        return tuple(item for item in value if isinstance(item, LogicalNode))
    return ()


@dataclass(frozen=True)
class Scan(LogicalNode):
    """A relation of the catalog under an alias; `store_type` is its store's (empty: a materialized view), the rest as `SourceColumns`."""

    relation: Relation
    alias: str
    properties: SourceProperties = SourceProperties()
    store_type: str = ""
    metadata: Struct | None = None
    headers: bool = False
    span: Span | None = field(default=None, compare=False)

    @property
    def sources(self) -> tuple[SourceColumns, ...]:
        relation = self.relation
        return (
            SourceColumns(
                self.alias,
                relation.schema,
                relation,
                relation.format.key_type,
                self.metadata,
                headers=self.headers,
            ),
        )

    @property
    def schema(self) -> Schema:
        return self.relation.schema


@dataclass(frozen=True)
class SingleRow(LogicalNode):
    """A single row without columns: the input of a SELECT without FROM."""


@dataclass(frozen=True)
class Subquery(LogicalNode):
    """A query in FROM, or a WITH query, under an alias; `view` is the materialized view that the query defines."""

    input: LogicalNode
    alias: str
    span: Span | None = field(default=None, compare=False)
    view: Relation | None = None

    @property
    def sources(self) -> tuple[SourceColumns, ...]:
        return (SourceColumns(self.alias, self.input.schema, hidden=False),)

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True)
class TimeWindow(LogicalNode):
    """Each row in the window or windows that its event time falls in: adds `window_start`, `window_end` and `window_time`,
    which is the last millisecond of the window.

    `advance_ms` is HOP's advance and CUMULATE's step. A SESSION has `size_ms` as its gap, and no bounds before it is grouped.
    Windows start `offset_ms` after the multiples of the advance since 1970 (CUMULATE: of the size), which is longer.
    Over rows that change, `time` is the column with their event time, which has one value for each key; see docs/adr/0095.
    """

    input: LogicalNode
    kind: WindowKind
    size_ms: int
    advance_ms: int
    span: Span | None = field(default=None, compare=False)
    offset_ms: int = 0
    time: ColumnReference | None = None

    @property
    def sources(self) -> tuple[SourceColumns, ...]:
        (source,) = self.input.sources
        return (replace(source, schema=Schema((*source.schema.columns, *WINDOW_COLUMNS))),)


class Change(Enum):
    """Effect of a row on the relation of a node. The value is its name in EXPLAIN."""

    INSERT = "+I"
    UPDATE_BEFORE = "-U"
    UPDATE_AFTER = "+U"
    DELETE = "-D"


@dataclass(frozen=True)
class ToChangelog(LogicalNode):
    """The changes of rows as rows that stay: the columns `first`, then `operation`, which holds the code of the change, then the others.

    Changes without a code are left out.
    """

    input: LogicalNode
    operation: str
    first: tuple[str, ...]
    codes: tuple[tuple[Change, str], ...]
    span: Span | None = field(default=None, compare=False)

    @property
    def sources(self) -> tuple[SourceColumns, ...]:
        (source,) = self.input.sources
        columns = [
            *(column for column in source.schema.columns if column.name in self.first),
            Column(self.operation, VARCHAR, nullable=False),
            *(column for column in source.schema.columns if column.name not in self.first),
        ]
        return (SourceColumns(source.alias, Schema(tuple(columns)), hidden=False),)


@dataclass(frozen=True)
class FromChangelog(LogicalNode):
    """The rows whose changes the input's rows are, by the codes in the column `operation`. There is one row at most for each `key`.

    With `upserts`, a row replaces that of its key; else it is added, or takes away a row that is equal to it.
    """

    input: LogicalNode
    operation: ColumnReference
    key: tuple[str, ...]
    changes: tuple[tuple[str, Change], ...]
    upserts: bool
    span: Span | None = field(default=None, compare=False)

    @property
    def sources(self) -> tuple[SourceColumns, ...]:
        (source,) = self.input.sources
        columns = [column for column in source.schema.columns if column.name != self.operation.column]
        first = [column for column in columns if column.name in self.key]
        rest = [column for column in columns if column.name not in self.key]
        return (SourceColumns(source.alias, Schema((*first, *rest)), hidden=False),)


@dataclass(frozen=True)
class Unnest(LogicalNode):
    """Each row once for every element of an array; `ordinality` names the column of the 1-based place.

    `columns` is the element, or where there are several, the fields of the STRUCT that each element is. With `outer`, a row without
    elements stays, with NULL in these columns.
    """

    input: LogicalNode
    array: Expression
    alias: str
    columns: tuple[Column, ...]
    ordinality: Column | None = None
    outer: bool = False

    @property
    def sources(self) -> tuple[SourceColumns, ...]:
        columns = (*self.columns, *((self.ordinality,) if self.ordinality else ()))
        return (*self.input.sources, SourceColumns(self.alias, Schema(columns), hidden=False))


@dataclass(frozen=True)
class Filter(LogicalNode):
    """The rows for which the condition is true."""

    input: LogicalNode
    condition: Expression


class Join(LogicalNode):
    """Common part of joins: the columns of a side that may have no match may be NULL."""

    left: LogicalNode
    right: LogicalNode
    kind: JoinKind

    @property
    def sources(self) -> tuple[SourceColumns, ...]:
        left, right = self.left.sources, self.right.sources
        if self.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return left
        if self.kind in (JoinKind.RIGHT, JoinKind.FULL):
            left = tuple(map(_nullable, left))
        if self.kind in (JoinKind.LEFT, JoinKind.FULL):
            right = tuple(map(_nullable, right))
        return (*left, *right)

    @property
    def inputs(self) -> tuple[LogicalNode, ...]:
        return (self.left, self.right)


def _nullable(source: SourceColumns) -> SourceColumns:
    columns = tuple(replace(column, nullable=True) for column in source.schema.columns)
    return replace(source, schema=replace(source.schema, columns=columns))


@dataclass(frozen=True)
class IntervalJoin(Join):
    """Stream with stream: equal keys, and the right event time between the left one plus `lower_ms` and plus `upper_ms`.

    `condition` is what else must hold for two rows to match. WITHIN n is -n to n.
    """

    left: LogicalNode
    right: LogicalNode
    left_keys: tuple[Expression, ...]
    right_keys: tuple[Expression, ...]
    lower_ms: int
    upper_ms: int
    kind: JoinKind = JoinKind.INNER
    condition: Expression | None = None


@dataclass(frozen=True)
class TemporalJoin(Join):
    """Join of a stream with a changelog or a view of a changelog: each row with the version of its key that was valid at the row's event
    time. A version that does not meet the `condition` of a LEFT JOIN is no match."""

    left: LogicalNode
    right: Scan | Subquery
    left_keys: tuple[Expression, ...]
    right_keys: tuple[str, ...]
    kind: JoinKind = JoinKind.INNER
    condition: Expression | None = None


@dataclass(frozen=True)
class LookupJoin(Join):
    """Stream with table: each row with those that the table has for its keys when the row is read. See docs/adr/0033.

    `condition` is what else must hold for two rows to match.
    """

    left: LogicalNode
    right: Scan
    left_keys: tuple[Expression, ...]
    right_keys: tuple[str, ...]
    kind: JoinKind = JoinKind.INNER
    condition: Expression | None = None


@dataclass(frozen=True)
class RegularJoin(Join):
    """Two relations, streams or changelogs, as they are now: equal keys (none: all pairs) and `condition`.

    A result row goes when one of its two rows goes. The state is both sides.
    """

    left: LogicalNode
    right: LogicalNode
    left_keys: tuple[Expression, ...]
    right_keys: tuple[Expression, ...]
    kind: JoinKind = JoinKind.INNER
    condition: Expression | None = None


@dataclass(frozen=True)
class SnapshotJoin(Join):
    """Any join between materialized views."""

    left: LogicalNode
    right: LogicalNode
    condition: Expression | None
    kind: JoinKind = JoinKind.INNER


@dataclass(frozen=True)
class Project(LogicalNode):
    """The select list; `distinct` in snapshot queries only."""

    input: LogicalNode
    items: tuple[Item, ...]
    distinct: bool = False

    @property
    def sources(self) -> tuple[SourceColumns, ...]:
        return ()

    @property
    def schema(self) -> Schema:
        return Schema(tuple(item.column for item in self.items))


@dataclass(frozen=True)
class Aggregate(LogicalNode):
    """The select list over groups; `sets` are the GROUPING SETS of a snapshot query, as positions of `group_by`."""

    input: LogicalNode
    group_by: tuple[Expression, ...]
    items: tuple[Item, ...]
    having: Expression | None = None
    sets: tuple[tuple[int, ...], ...] | None = None

    @property
    def sources(self) -> tuple[SourceColumns, ...]:
        return ()

    @property
    def schema(self) -> Schema:
        return Schema(tuple(item.column for item in self.items))


@dataclass(frozen=True)
class Union(LogicalNode):
    """The rows of all inputs; columns by position, named by the first."""

    branches: tuple[LogicalNode, ...]
    distinct: bool = False

    @property
    def sources(self) -> tuple[SourceColumns, ...]:
        return ()

    @property
    def schema(self) -> Schema:
        first, *others = (branch.schema.columns for branch in self.branches)
        return Schema(
            tuple(
                replace(column, nullable=column.nullable or any(other[place].nullable for other in others))
                for place, column in enumerate(first)
            )
        )


class SetOperator(Enum):
    """A set operation of snapshot queries beside UNION."""

    INTERSECT = "INTERSECT"
    EXCEPT = "EXCEPT"


@dataclass(frozen=True)
class SetOperation(LogicalNode):
    """The rows that are in both inputs, or in the left one only; with `distinct` each once. Of snapshot queries."""

    left: LogicalNode
    right: LogicalNode
    operator: SetOperator
    distinct: bool = True
    span: Span | None = field(default=None, compare=False)

    @property
    def sources(self) -> tuple[SourceColumns, ...]:
        return ()

    @property
    def schema(self) -> Schema:
        return self.left.schema


RANK_SOURCE = f"{PREFIX}rank"
RankFunction = Literal["ROW_NUMBER", "RANK", "DENSE_RANK"]


@dataclass(frozen=True)
class TopN(LogicalNode):
    """The first rows of each partition by `order_by`: `function() OVER (PARTITION BY … ORDER BY …) <= limit`.

    With RANK and DENSE_RANK, rows that are equal in order have the same rank, and there may be more than `limit`. The first `skipped` rows
    are left out. `rank` names the column, of the source `RANK_SOURCE`, that holds a row's rank from 1; None: nothing reads it.
    """

    input: LogicalNode
    partition_by: tuple[Expression, ...]
    order_by: tuple[SortKey, ...]
    limit: int
    rank: str | None = None
    skipped: int = 0
    function: RankFunction = "ROW_NUMBER"
    span: Span | None = field(default=None, compare=False)

    @property
    def has_ties(self) -> bool:
        """True if several rows of a partition may have the same rank."""
        return self.function != "ROW_NUMBER"

    @property
    def sources(self) -> tuple[SourceColumns, ...]:
        if self.rank is None:
            return self.input.sources
        place = Schema((Column(self.rank, BIGINT, nullable=False),))
        return (*self.input.sources, SourceColumns(RANK_SOURCE, place, hidden=False))


@dataclass(frozen=True)
class WindowExtremes(LogicalNode):
    """The rows of `input` whose `value` is the MAX or MIN (`function`) of their time window; beside each row the `items`, under `alias`.

    It replaces a join of `input` with a group for each of its own windows; with `leads` the group is on the left.
    """

    input: LogicalNode
    function: Literal["MAX", "MIN"]
    value: Expression
    alias: str
    items: tuple[Item, ...]
    leads: bool = False
    span: Span | None = field(default=None, compare=False)

    @property
    def sources(self) -> tuple[SourceColumns, ...]:
        group = SourceColumns(self.alias, Schema(tuple(item.column for item in self.items)), hidden=False)
        return (group, *self.input.sources) if self.leads else (*self.input.sources, group)


OVER_SOURCE = f"{PREFIX}over"


@dataclass(frozen=True)
class OverAggregate(LogicalNode):
    """Each row with the results of window functions over the rows of its partition so far, in the order of event time.

    `items` are `Over`s of the same partition; their frames may differ. They are the columns of the source `alias`.
    """

    input: LogicalNode
    alias: str
    partition_by: tuple[Expression, ...]
    items: tuple[Item, ...]
    span: Span | None = field(default=None, compare=False)

    @property
    def sources(self) -> tuple[SourceColumns, ...]:
        results = Schema(tuple(item.column for item in self.items))
        return (*self.input.sources, SourceColumns(self.alias, results, hidden=False))

    @property
    def calls(self) -> tuple[tuple[str, Over], ...]:
        """The name of each result, and its window function."""
        return tuple((item.name, item.expression) for item in self.items if isinstance(item.expression, Over))


MATCH = f"{PREFIX}match"


@dataclass(frozen=True)
class Navigation:
    """A value of the rows that a pattern has taken, by which it is called: of the row that stands `offset` rows after the `first` of a
    `variable`'s, or before the `last`; `prev`: `offset` rows before the variable's last, whichever variable took that; `values`: of all
    of its rows, as an array. None: of all rows of the match.
    """

    name: str
    kind: str
    variable: str | None
    expression: Expression | None
    offset: int = 0

    @property
    def type(self) -> DataType:
        """The value's."""
        if self.kind == "number":
            return BIGINT
        kind = self.expression.type if self.expression is not None else VARCHAR
        return Array(kind) if self.kind.endswith("values") else kind


@dataclass(frozen=True)
class PatternVariable:
    """A variable of a pattern: it takes from `least` to `most` rows (None: any number) for which `condition`, over navigations, is
    true (None: any row); with `greedy` as many as it can."""

    name: str
    least: int
    most: int | None
    greedy: bool
    condition: Expression | None = None


@dataclass(frozen=True)
class PatternPart:
    """A part of a pattern in the meaning of the SQL standard.

    `kind`: `row` and `excluded` (from ALL ROWS PER MATCH), a row of `variable`; `sequence`, `alternation` and `permutation` of `parts`;
    `repetition` of one part, `least` to `most` times (None: any number), as often as possible if `greedy`.
    """

    kind: str
    variable: str | None = None
    parts: tuple[PatternPart, ...] = ()
    least: int = 1
    most: int | None = 1
    greedy: bool = True


@dataclass(frozen=True)
class MatchRecognize(LogicalNode):
    """The matches of a pattern in the rows of each partition, which are in the order of event time and then of `order_by`.

    `items` are computed of `navigations`, which they name as columns of the source `MATCH`: the partition's columns and the measures.
    `skip` says where the search goes on after a match: at its second row (`next_row`), behind it (`past_last_row`), or at the `first`
    or `last` row of `skip_to`, a variable or one of `subsets`, which are names of several variables. A match takes less than
    `within_ms` (None: any time). The pattern is the sequence of `pattern` in Flink's meaning, or (`parts`) one of these variables in
    the meaning of the SQL standard. With `all_rows` each row of a match is a row of the result.
    """

    input: LogicalNode
    alias: str
    partition_by: tuple[Expression, ...]
    order_by: tuple[SortKey, ...]
    items: tuple[Item, ...]
    pattern: tuple[PatternVariable, ...]
    navigations: tuple[Navigation, ...]
    skip: str
    skip_to: str | None = None
    within_ms: int | None = None
    parts: PatternPart | None = None
    subsets: tuple[tuple[str, tuple[str, ...]], ...] = ()
    all_rows: bool = False
    span: Span | None = field(default=None, compare=False)

    @property
    def waits(self) -> bool:
        """True if a row of the result may be older than the row after which it is known."""
        return self.skip != "next_row" or self.parts is not None or self.all_rows

    @property
    def sources(self) -> tuple[SourceColumns, ...]:
        columns = Schema(tuple(item.column for item in self.items))
        return (SourceColumns(self.alias, columns, hidden=False),)


@dataclass(frozen=True)
class Sort(LogicalNode):
    """ORDER BY of a snapshot query. A key that is a `ColumnReference` to the source `""` is an output column."""

    input: LogicalNode
    keys: tuple[SortKey, ...]

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True)
class Limit(LogicalNode):
    """A limit of `count` rows (None: all), after `offset`."""

    input: LogicalNode
    count: int | None
    offset: int = 0

    @property
    def schema(self) -> Schema:
        return self.input.schema


def walk(node: LogicalNode) -> Iterator[LogicalNode]:
    """Yield `node` and everything below it, left to right, topmost first."""
    yield node
    for child in node.inputs:
        yield from walk(child)


def expressions(node: LogicalNode) -> Iterator[Expression]:
    """Yield the expressions that a node itself computes, compares or sorts by, without those of the nodes below it."""
    for name in _field_names(type(node)):
        value = getattr(node, name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Expression):
                yield part
            elif isinstance(part, Item | SortKey):
                yield part.expression
            elif isinstance(part, Navigation | PatternVariable):
                inside = part.expression if isinstance(part, Navigation) else part.condition
                if inside is not None:
                    yield inside


def transform(node: LogicalNode, change: Callable[[LogicalNode], LogicalNode]) -> LogicalNode:
    """Return a copy with `change` applied to every node, lowest first."""
    updates: dict[str, object] = {}
    for name in _field_names(type(node)):
        value = getattr(node, name)
        if isinstance(value, LogicalNode):
            updates[name] = transform(value, change)
        elif isinstance(value, tuple) and any(isinstance(part, LogicalNode) for part in value):
            updates[name] = tuple(transform(part, change) for part in value)
    return change(replace(node, **updates)) if updates else change(node)  # type: ignore[type-var]
