"""The physical plan as data: what the control plane hands to a Spark driver, what is stored with a query and what EXPLAIN prints.

A `SparkPlan` is versioned JSON; plans of earlier versions are read through `upgrades`. Its steps are in topological order; each
produces one DataFrame under its `id`, and those that `outputs` names write what they are given: the first is the query's own sink.
Ids say what a step is and where in the statement it comes from (`joined_c`), so that they stay when other parts change.
It holds no secret: stores are named, and their properties travel beside the plan when a query is started.

An edge between steps has a change mode. `insert`: rows only. `upsert`: a row is the new version of its key, or, where `deleted`
is true, its end; rows of a key come in order. `signed`: `op` is 1 where a row is added and -1 where it is taken away, in any
order: the edge is the difference of a multiset. Where a step above has a time to live (see `repeats`), `op` is 0 of a row that
is still there.

Internal columns start with the plan's `internal_prefix`, which this text leaves out. `DecodeRows` gives, beside the declared columns:
`rowtime` TIMESTAMP (event time), `rowkey` (the decoded key, NULL without a key format), `deleted` BOOLEAN (true for a
tombstone of an upsert changelog); where the row stands: `entity` STRING, `split` INT (a partition or shard of it), `sequence`
BIGINT (orders the rows of a key in a batch), `metadata` (a STRUCT, as the store type says it); and, where it is to be carried
through, `key` BINARY (the key as it came), or `record` (the record as it came: a STRUCT of key, value, timestamp and headers).
Types are texts of `core.types`. All times are milliseconds.
"""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headrace.core.internal_columns import DELETED, FOUND, PREFIX, ROW_TIME
from headrace.core.names import EntityPath
from headrace.formats.json import Json
from headrace.formats.known import AnyFormat
from headrace.planner.target import LOCAL, Target
from headrace.planner.upgrades import UnreadablePlanError, upgraded

PLAN_VERSION: Literal[5] = 5


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Column(_Data):
    """A column of a step's output."""

    name: str
    type: str
    nullable: bool = True


class ReadEntity(_Data):
    """Raw records of an entity, whose path is `entity`: the columns that `connectors.streaming` names."""

    step: Literal["read_entity"] = "read_entity"
    id: str
    store: str
    connector: str
    entity: EntityPath
    starting_position: Literal["earliest", "latest", "timestamp"] = "latest"
    starting_timestamp_ms: int | None = None
    options: dict[str, str] = Field(default_factory=dict)


class ReadRows(_Data):
    """Rows of an entity that its store types itself: declared and hidden columns, as of `DecodeRows`.

    `upsert`: a row is the new version of its key, or its end. `timestamp` names the column of the event time (None: the store says it);
    `arrival`: it is the time of the batch. `on_error`: a row that cannot be read stops the query, or is skipped. `on_function_error`: see
    `DecodeRows`.
    """

    step: Literal["read_rows"] = "read_rows"
    id: str
    store: str
    connector: str
    entity: EntityPath
    columns: list[Column]
    key_columns: list[str] = Field(default_factory=list)
    upsert: bool = False
    timestamp: str | None = None
    arrival: bool = False
    starting_position: Literal["earliest", "latest", "timestamp"] = "earliest"
    starting_timestamp_ms: int | None = None
    options: dict[str, str] = Field(default_factory=dict)
    on_error: Literal["terminate", "ignore"] = "terminate"
    on_function_error: Literal["terminate", "null"] = "terminate"


class ReadTable(_Data):
    """The rows that an entity has now; with it a plan has an end."""

    step: Literal["read_table"] = "read_table"
    id: str
    store: str
    connector: str
    entity: EntityPath
    columns: list[Column]
    options: dict[str, str] = Field(default_factory=dict)


class DecodeRows(_Data):
    """Raw records to declared and hidden columns.

    `key_columns` are the value columns that a tombstone takes from the record's key. A record that cannot be decoded stops the
    query (`on_error` = `terminate`; the error names topic, partition and offset), is skipped (`ignore`), or is skipped and
    written, as it came, to the output whose id `on_error` is; so does one whose event time is more than `ahead_ms` ahead of
    the clock (0: any may be). `carries_key`: the sink's records have this source's keys. `carries_record`: `AssignWatermark` sends late
    records on as they came. `on_function_error`: a row for which a function of a user fails stops the query (`terminate`), has NULL as its
    result (`null`), is left out (`ignore`), or is left out and its record written to that output. `arrival`: `rowtime` is the time of the
    batch. `flat_metadata`: the SQL of the plan, stored before version 3,
    names topic, partition, offset and timestamp type as columns of their own. `headers`: there is `rowheaders` too, a MAP of BINARYs
    by name.
    """

    step: Literal["decode_rows"] = "decode_rows"
    id: str
    input: str
    columns: list[Column]
    value: AnyFormat = Json()
    key: AnyFormat | None = None
    key_type: str | None = None
    key_columns: list[str] = Field(default_factory=list)
    timestamp: str | None = None
    upsert: bool = False
    on_error: str = "terminate"
    on_function_error: str = "terminate"
    ahead_ms: int = 0
    carries_key: bool = False
    carries_record: bool = False
    arrival: bool = False
    flat_metadata: bool = False
    headers: bool = False


class AssignWatermark(_Data):
    """Event time and per-partition watermark on `event_time`; same columns.

    Rows with `deleted` move no watermark. A late row is one whose last window is over: that begins at the multiple of `advance_ms`,
    plus `offset_ms`, before it (0: with the row) and is `window_ms` long (0: there are no windows). Late rows are counted and, where
    `late` is the id of an output, written there as they came. Where rows have the time of their batch, `clock_step_ms` says how often
    a window ends.
    """

    step: Literal["assign_watermark"] = "assign_watermark"
    id: str
    input: str
    source: str
    event_time: str = ROW_TIME
    delay_ms: int = 0
    idle_timeout_ms: int = 0
    all_idle: Literal["last", "hold"] = "last"
    deleted: str | None = None
    window_ms: int = 0
    advance_ms: int = 0
    offset_ms: int = 0
    late: str | None = None
    clock_step_ms: int = 0


class SqlTransform(_Data):
    """Spark SQL over earlier steps, which it names by their ids.

    `event_time` is a TIMESTAMP column of the result that is computed from columns with a watermark, and carries it on.
    """

    step: Literal["sql_transform"] = "sql_transform"
    id: str
    inputs: list[str]
    sql: str
    event_time: str | None = None


class TemporalJoin(_Data):
    """Event-time join of `left` with the versions of `right`.

    Output: all columns of `left`, and a STRUCT `right_name` of all columns of `right` (NULL where no version was valid).
    """

    step: Literal["temporal_join"] = "temporal_join"
    id: str
    left: str
    right: str
    left_keys: list[str]
    right_keys: list[str]
    left_time: str = ROW_TIME
    right_time: str = ROW_TIME
    right_name: str
    right_deleted: str | None = None
    how: Literal["inner", "left"] = "inner"
    state_ttl_ms: int = 0


class LookupJoin(_Data):
    """The rows that an entity has for the `keys` of each row when it is read, by its columns `key_columns`.

    Output: all columns of `input`, and `name`: an ARRAY of STRUCTs of `columns`, empty where there is none. With `refresh_ms` the
    entity is read whole, and again so often; else its rows are asked for by key.
    """

    step: Literal["lookup_join"] = "lookup_join"
    id: str
    input: str
    store: str
    connector: str
    entity: EntityPath
    columns: list[Column]
    keys: list[str]
    key_columns: list[str]
    name: str = FOUND
    refresh_ms: int | None = None
    options: dict[str, str] = Field(default_factory=dict)


class IntervalJoin(_Data):
    """The pairs of rows with equal keys whose event times, `rowtime` of the right less that of the left, are from `lower_ms` to
    `upper_ms`, and that meet `condition` (Spark SQL over the columns of both sides).

    A row of an outer join without a partner comes when the watermark rules one out. Keys that are internal are no columns of
    the output. (Plans stored before this step was have the join in a text of Spark SQL, and keep it.)
    """

    step: Literal["interval_join"] = "interval_join"
    id: str
    left: str
    right: str
    left_keys: list[str]
    right_keys: list[str]
    lower_ms: int
    upper_ms: int
    condition: str | None = None
    how: Literal["inner", "left", "right", "full"] = "inner"


class Normalize(_Data):
    """Upserts to signed rows: keeps the last row of each key, and takes it away before the next one.

    Rows of a key come in the order of `sequence`, which like `deleted` (None: no row ends its key) is no column of the output.
    With `kinds`, `op` is -2 of the old row of an update and 2 of its new one.
    """

    step: Literal["normalize"] = "normalize"
    id: str
    input: str
    keys: list[str]
    deleted: str | None = DELETED
    sequence: str | None = None
    kinds: bool = False
    state_ttl_ms: int = 0


class Materialize(_Data):
    """Signed rows to upserts by `keys`: of several rows of a key the one that was added last is shown."""

    step: Literal["materialize"] = "materialize"
    id: str
    input: str
    keys: list[str]
    state_ttl_ms: int = 0


class AggregateCall(_Data):
    """An aggregate over columns of the input; `type` is that of the result column `name`."""

    name: str
    function: str
    arguments: list[str] = Field(default_factory=list)
    distinct: bool = False
    type: str


class ChangelogAggregate(_Data):
    """Groups by `keys` under insertion and deletion; gives keys, results and, where the input has it, `rowtime`.

    `signed` says whether the input is (else all rows are insertions). The output is `upsert` by `keys`, or `signed`.
    Without keys there is one row for ever; a group without rows ends.
    """

    step: Literal["changelog_aggregate"] = "changelog_aggregate"
    id: str
    input: str
    keys: list[str]
    calls: list[AggregateCall]
    signed: bool = False
    output: Literal["upsert", "signed"] = "upsert"
    state_ttl_ms: int = 0


class ChangelogJoin(_Data):
    """The pairs of rows with equal keys that meet `condition` (Spark SQL over the columns of both sides).

    A pair is taken away with either of its rows. Keys that are internal are no columns of the output. `…_closes` names a
    TIMESTAMP column: when the watermark reaches it the row is forgotten. Without signed sides an inner join gives insertions.
    """

    step: Literal["changelog_join"] = "changelog_join"
    id: str
    left: str
    right: str
    left_keys: list[str]
    right_keys: list[str]
    left_signed: bool = False
    right_signed: bool = False
    condition: str | None = None
    how: Literal["inner", "left", "right", "full", "semi", "anti"] = "inner"
    left_closes: str | None = None
    right_closes: str | None = None
    state_ttl_ms: int = 0


class OrderKey(_Data):
    """A key of an order."""

    column: str
    descending: bool = False
    nulls_first: bool = False


class TopN(_Data):
    """The rows of each partition with a rank up to `limit`, as `function` counts them; `rank` names a BIGINT column of it, from 1.

    For row_number, of rows that are equal in order the `oldest` that came goes first, or the `newest`.

    With `closes` (a TIMESTAMP column) they are given once, when the watermark reaches it: the output is `insert`.
    """

    step: Literal["top_n"] = "top_n"
    id: str
    input: str
    partition: list[str]
    order: list[OrderKey]
    limit: int
    signed: bool = False
    output: Literal["upsert", "signed", "insert"] = "signed"
    rank: str | None = None
    closes: str | None = None
    state_ttl_ms: int = 0
    ties: Literal["oldest", "newest"] = "oldest"
    function: Literal["row_number", "rank", "dense_rank"] = "row_number"


class WindowExtremes(_Data):
    """The rows whose `value` is the greatest (`max`) or the least (`min`) of their `window`, without that column.

    All rows of a window come in one batch, so that there is no state. A NULL is no value.
    """

    step: Literal["window_extremes"] = "window_extremes"
    id: str
    input: str
    function: Literal["max", "min"]
    value: str
    window: str = ROW_TIME


class PatternVariable(_Data):
    """Takes from `least` to `most` rows (None: any number) for which `condition` is true, Spark SQL over the names of navigations
    (None: any row); `greedy`: all that it can, else as few as possible."""

    name: str
    least: int = 1
    most: int | None = 1
    greedy: bool = True
    condition: str | None = None


class PatternPart(_Data):
    """A part of a pattern in the meaning of the SQL standard, of the `parts` at these places of the list before it: a `row` of `variable`
    (`excluded`: left out of all rows), a `sequence`, an `alternation` (the first is preferred), a `permutation`, or a `repetition` of
    one part, `least` to `most` times (None: any number)."""

    kind: Literal["row", "excluded", "sequence", "alternation", "permutation", "repetition"]
    variable: str | None = None
    parts: list[int] = Field(default_factory=list)
    least: int = 1
    most: int | None = 1
    greedy: bool = True


class Navigation(_Data):
    """The `column` (None: the name of the variable) of a row of `variable` (None: of the match): the `first` plus or the `last` less
    `offset` of its rows, or (`prev`) `offset` rows before its last one, whichever they are; or of all of its rows (`values`), an ARRAY.
    `final_`: of the whole match, where its rows are shown. `number`: that of the match."""

    name: str
    kind: Literal[
        "first", "last", "prev", "values", "final_first", "final_last", "final_prev", "final_values", "number"
    ]
    variable: str | None = None
    column: str | None
    offset: int = 0


class MatchRecognize(_Data):
    """The matches of `pattern` in the rows of each partition, in the order of `time` and then of `order`, once the watermark has passed
    them. Output: a column for each navigation, and `time`, of the last row of the match, or (`all_rows`) of each of its rows.

    With `parts`, the last of which is the whole, the pattern is that; else the sequence of the variables. `subsets` are names of several.
    """

    step: Literal["match_recognize"] = "match_recognize"
    id: str
    input: str
    time: str = ROW_TIME
    partition: list[str]
    order: list[OrderKey]
    pattern: list[PatternVariable]
    navigations: list[Navigation]
    skip: Literal["next_row", "past_last_row", "first", "last"] = "next_row"
    skip_to: str | None = None
    within_ms: int = 0
    parts: list[PatternPart] = Field(default_factory=list)
    subsets: dict[str, list[str]] = Field(default_factory=dict)
    all_rows: bool = False
    state_ttl_ms: int = 0


class OverCall(_Data):
    """A window function over columns of the input, of the rows from `preceding` before the current row (None: from the first one) to the
    current row; `rows` counts them, `range` is in milliseconds, and rows of one time share their frame. `type` is that of the result
    column `name`. LAG reads the row `preceding` rows before, and its second argument where there is none."""

    name: str
    function: str
    arguments: list[str] = Field(default_factory=list)
    type: str
    unit: Literal["rows", "range"]
    preceding: int | None = None


class OverAggregate(_Data):
    """Each row with the results of `calls` over its partition, in the order of `time`, once the watermark has passed the row.

    Output: the columns of the input that are neither in `partition` nor arguments, and a column for each call.
    """

    step: Literal["over_aggregate"] = "over_aggregate"
    id: str
    input: str
    time: str = ROW_TIME
    partition: list[str]
    calls: list[OverCall]
    state_ttl_ms: int = 0


class EncodeRows(_Data):
    """Columns to records: key BINARY (NULL without `key_format`), value BINARY (NULL where `deleted` is true).

    The key is the BINARY of `key_expression` where that is given, else made of `key_columns`: never NULL then. (Plans stored
    before `key` was carried have the decoded `rowkey` there, which is encoded anew.)
    A tombstone carries its event time in a header: that of the column `timestamp`, by which readers know it of other
    records, else that of the column `event_time`.
    """

    step: Literal["encode_rows"] = "encode_rows"
    id: str
    input: str
    columns: list[Column]
    value: AnyFormat = Json()
    key: AnyFormat | None = None
    key_columns: list[str] = Field(default_factory=list)
    key_expression: str | None = None
    deleted: str | None = None
    timestamp: str | None = None
    event_time: str | None = None


class WriteEntity(_Data):
    """Records to an entity."""

    step: Literal["write_entity"] = "write_entity"
    id: str
    input: str
    store: str
    connector: str
    entity: EntityPath
    guarantee: Literal["at_least_once", "exactly_once"] = "at_least_once"
    options: dict[str, str] = Field(default_factory=dict)


class WriteRows(_Data):
    """Rows to an entity that its store types itself: appended, or upserted by `key_columns` (deleted where `deleted` is true)."""

    step: Literal["write_rows"] = "write_rows"
    id: str
    input: str
    store: str
    connector: str
    entity: EntityPath
    columns: list[Column]
    key_columns: list[str] = Field(default_factory=list)
    deleted: str | None = None
    guarantee: Literal["at_least_once", "exactly_once"] = "at_least_once"
    options: dict[str, str] = Field(default_factory=dict)


class WriteView(_Data):
    """Rows to a materialized view: appended, or upserted by `key_columns` (deleted where `deleted` is true), or, where `sign` names a
    column, added (1) and taken away (-1)."""

    step: Literal["write_view"] = "write_view"
    id: str
    input: str
    view: str
    columns: list[Column]
    key_columns: list[str] = Field(default_factory=list)
    deleted: str | None = None
    sign: str | None = None


class Changes(_Data):
    """Identity of a changelog's rows: does one insert, update or delete its key?

    `primary_key` are the key's columns in the result, none if it is not selected. `key_columns` are those of the input that tell
    rows apart. A row where `deleted` is true ends its key. With `filtered` not all keys are shown, and the end of one that was
    not is none. With `final` each key comes once. `sign` names the column that says, in place of all this, whether a row is added (1)
    or taken away (-1).
    """

    primary_key: list[str]
    key_columns: list[str]
    deleted: str | None = None
    filtered: bool = False
    final: bool = False
    sign: str | None = None


class WriteResults(_Data):
    """Rows to the result channel of an interactive query; `limit` rows at most (None: no end). `changes`: of a changelog."""

    step: Literal["write_results"] = "write_results"
    id: str
    input: str
    columns: list[Column]
    limit: int | None = None
    changes: Changes | None = None


class Spool(_Data):
    """The rows of `input`, which end, as a stream that ends. They are computed once and stored in the checkpoint, so that each batch of
    them can be repeated."""

    step: Literal["spool"] = "spool"
    id: str
    input: str


class OptimizeEntity(_Data):
    """Puts the files of an entity in order, and sends one row of `columns` to the result channel: a plan of its own, without rows.

    What `queries`, by id, still need to continue from their checkpoints, in the places `checkpoints`, stays.
    """

    step: Literal["optimize_entity"] = "optimize_entity"
    id: str
    store: str
    connector: str
    entity: EntityPath
    columns: list[Column]
    queries: list[str] = Field(default_factory=list)
    checkpoints: list[str] = Field(default_factory=list)
    options: dict[str, str] = Field(default_factory=dict)


Step = Annotated[
    ReadEntity
    | ReadRows
    | ReadTable
    | DecodeRows
    | AssignWatermark
    | SqlTransform
    | TemporalJoin
    | LookupJoin
    | IntervalJoin
    | Normalize
    | Materialize
    | ChangelogAggregate
    | ChangelogJoin
    | TopN
    | WindowExtremes
    | MatchRecognize
    | OverAggregate
    | Spool
    | EncodeRows
    | WriteEntity
    | WriteRows
    | WriteView
    | WriteResults
    | OptimizeEntity,
    Field(discriminator="step"),
]


class Grouping(_Data):
    """An aggregation by Spark's own operator, inside the text of a `SqlTransform`: what its state consists of.

    `rows` is the FROM and WHERE over the steps `inputs`; `keys` and `calls` are Spark SQL over these rows, in the order in which Spark
    keeps them. Two plans with equal groupings over equal inputs can use the same state, whatever their texts select of it.
    """

    inputs: list[str]
    rows: str
    keys: list[str]
    calls: list[str]


class UserFunction(_Data):
    """A function of a user that the texts of the plan call by `headrace_call('id', …)`.

    `digest` has the SHA-256 of each file of its code, with a plus sign between them, in the first of which `class_name` is what is
    called; `arguments` and `result` are the types of the call (of an aggregate: one ARRAY with the parameters of each row; of a table
    function: an ARRAY of its rows). The id changes with all of this.
    """

    id: str
    signature: str
    digest: str
    language: Literal["java", "python"]
    class_name: str
    kind: Literal["scalar", "vectorized", "table", "aggregate"]
    parameters: list[str]
    arguments: list[str]
    result: str
    egress: list[str] = Field(default_factory=list)


StoreStep = ReadEntity | ReadRows | ReadTable | LookupJoin | WriteEntity | WriteRows | OptimizeEntity
"""The steps that name a store."""


class SparkPlan(_Data):
    """A whole continuous or interactive query, or the queries of an application, each with a sink.

    `mode` and the `reasons` for it are the planner's choice; `bounded` ends the query when it has read what was there at its start.
    `internal_prefix` is the one that names of internal columns have: the state of operators keeps the names that it began with.
    `groupings` are the aggregations that `SqlTransform`s contain, in order; None in a plan of before version 5, which does not list them.
    `functions` are those of users that the texts call. `target` is where the plan runs; that of a plan without one was not checked.
    `state_partitions` is the number of partitions of the state, if the statement names one; else the checkpoint and the driver know it.
    """

    version: Literal[5] = PLAN_VERSION
    mode: Literal["micro_batch", "real_time"] = "micro_batch"
    reasons: list[str] = Field(default_factory=list)
    output_mode: Literal["append", "update"] = "append"
    bounded: bool = False
    internal_prefix: str = PREFIX
    steps: list[Step]
    outputs: list[str]
    groupings: list[Grouping] | None = Field(default_factory=list)
    functions: list[UserFunction] = Field(default_factory=list)
    target: Target = LOCAL
    state_partitions: int | None = None

    def to_json(self) -> str:
        """Return stable text: the form that is stored and compared. Earlier releases read a plan without `state_partitions`."""
        without = {"state_partitions"} if self.state_partitions is None else None
        return self.model_dump_json(indent=1, exclude_defaults=False, exclude=without)

    @property
    def sink(self) -> Step:
        """The step that writes what the query is about: the first, of several."""
        return self.sinks[0]

    @property
    def sinks(self) -> list[Step]:
        """The steps that write what queries are about, in the order of the queries."""
        left_out = self._left_out()
        return [self.step(output) for output in self.outputs if output not in left_out]

    @property
    def side_outputs(self) -> list[WriteEntity]:
        """The steps that write the records which other steps leave out."""
        left_out = self._left_out()
        return [step for step in self.steps if isinstance(step, WriteEntity) and step.id in left_out]

    def step(self, identifier: str) -> Step:
        """Return the step of that id."""
        return next(step for step in self.steps if step.id == identifier)

    def under(self, output: str) -> list[Step]:
        """Return the steps that an output depends on, with the output itself, in order; and the writers of the records that they leave
        out."""
        needed = {output}
        for step in reversed(self.steps):
            if step.id in needed:
                needed |= {*inputs_of(step), *_left_out_by(step)}
        return [step for step in self.steps if step.id in needed]

    def parts(self) -> list[SparkPlan]:
        """Return the plans of which this one is made, that have no step in common: each is a Spark query of its own."""
        groups: list[set[str]] = []
        for sink in self.sinks:
            steps = {step.id for step in self.under(sink.id)}
            apart = [group for group in groups if not group & steps]
            groups = [*apart, steps.union(*(group for group in groups if group & steps))]
        if len(groups) == 1:
            return [self]
        return [
            self.model_copy(
                update={
                    "steps": [step for step in self.steps if step.id in group],
                    "outputs": [output for output in self.outputs if output in group],
                    "groupings": self.groupings
                    and [each for each in self.groupings if group.issuperset(each.inputs)],
                }
            )
            for group in groups
        ]

    def _left_out(self) -> set[str]:
        named = {identifier for step in self.steps for identifier in _left_out_by(step)}
        return named & set(self.outputs)

    @staticmethod
    def from_json(text: str) -> SparkPlan:
        """Read a stored plan of this or an earlier version. Raises UnreadablePlanError for an unknown version or step."""
        try:
            return SparkPlan.model_validate(upgraded(json.loads(text)))
        except ValidationError as error:
            raise UnreadablePlanError(error.error_count()) from error


def inputs_of(step: Step) -> tuple[str, ...]:
    """Return the ids of the steps whose rows a step reads."""
    match step:
        case ReadEntity() | ReadRows() | ReadTable() | OptimizeEntity():
            return ()
        case SqlTransform():
            return tuple(step.inputs)
        case TemporalJoin() | IntervalJoin() | ChangelogJoin():
            return (step.left, step.right)
    return (step.input,)


def _left_out_by(step: Step) -> tuple[str, ...]:
    if isinstance(step, DecodeRows):
        return (step.on_error, step.on_function_error)
    return (step.late,) if isinstance(step, AssignWatermark) and step.late is not None else ()
