"""A plan in words: the text of EXPLAIN and DESCRIBE QUERY, and the JSON of DESCRIBE <statement>."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headrace.analyzer.checks import computed_again
from headrace.analyzer.expressions import STAR, Over, SortKey, unrepeatable, unrepeatable_calls
from headrace.analyzer.logical import (
    RANK_SOURCE,
    Aggregate,
    Filter,
    FromChangelog,
    IntervalJoin,
    Limit,
    LogicalNode,
    LookupJoin,
    MatchRecognize,
    OverAggregate,
    PatternPart,
    PatternVariable,
    Project,
    RegularJoin,
    Scan,
    SnapshotJoin,
    Sort,
    SourceProperties,
    Subquery,
    TemporalJoin,
    TimeWindow,
    ToChangelog,
    TopN,
    Union,
    Unnest,
    WindowExtremes,
    expressions,
)
from headrace.analyzer.logical import walk as nodes
from headrace.analyzer.over_aggregates import frame_of
from headrace.analyzer.plan import LogicalPlan
from headrace.analyzer.traits import Place, RowWindow, row_windows
from headrace.catalog.objects import Relation, RelationKind
from headrace.core.names import EntityPath, path_text, printed, quote
from headrace.core.wording import counted
from headrace.planner import physical
from headrace.planner.display import SHOWN
from headrace.planner.modes import Materialize, Mode, Normalize, Operator
from headrace.planner.plan import placed
from headrace.planner.rules import rewritten
from headrace.planner.sinks import EntitySink, ResultSink, Sink, TableSink, ViewSink
from headrace.planner.snapshot import compile_snapshot
from headrace.planner.state import State, needs_event_time, states, warning
from headrace.sql.ast import duration_text, quantified


def explain(logical: LogicalPlan, plan: physical.SparkPlan | None = None, sink: Sink | None = None) -> str:
    """Return the lines of EXPLAIN, from the user's query down to the steps that run.

    Without `plan` (a query of materialized views) it is the logical plan and the DuckDB query.
    """
    operator = placed(logical, sink or ResultSink()) if plan is not None and not logical.has_end else None
    lines = list(_output(logical, operator, sink))
    if logical.snapshot and plan is None:
        lines += ["Mode: snapshot", "  because every source is a materialized view or a system relation"]
    if plan is not None:
        lines += _mode(plan)
        lines += _delivery(sink)
        lines += _not_repeatable(logical) if operator is not None else []
    lines += _functions(logical)
    if operator is not None and plan is not None:
        ttl_ms = logical.properties.state_ttl_ms
        lines += _sources(rewritten(logical), uses_time=needs_event_time(operator, ttl_ms))
        lines += _state(states(operator, ttl_ms))
        lines += ["", "Operators:", *_operators(operator, 1)]
        lines += ["", "Spark plan:", *_steps(plan)]
    elif plan is not None:
        lines += ["", "Logical plan:", *_tree(logical.root, 1), "", "Spark plan:", *_steps(plan)]
    else:
        lines += ["", "Logical plan:", *_tree(logical.root, 1)]
        lines += ["", "View query:", *_indented(compile_snapshot(logical).sql)]
    return "\n".join(lines)


def explain_running(plan: physical.SparkPlan) -> str:
    """Return a stored plan's mode and steps, in EXPLAIN's words, for DESCRIBE QUERY."""
    return "\n".join([*_mode(plan), "Spark plan:", *_steps(plan)])


# --- output


def _functions(logical: LogicalPlan) -> Iterator[str]:
    called = {each.id: each.function for functions in logical.functions.values() for each in functions}
    if not called:
        return
    yield "Functions of users:"
    for function in sorted(called.values(), key=lambda each: str(each.signature)):
        yield f"  {function.signature} {function.returns}, {function.kind.value}, in {function.language.value}"


def _output(logical: LogicalPlan, operator: Operator | None, sink: Sink | None) -> Iterator[str]:
    key = logical.schema.primary_key
    keyed = f", primary key ({', '.join(map(printed, key))})" if key else ""
    if operator is not None:
        yield f"Output: {logical.kind.name} ({operator.mode.value}{keyed})"
    elif isinstance(sink, EntitySink | TableSink | ViewSink):
        yield f"Output: {logical.kind.name} ({Mode.INSERT.value}{keyed})"
    else:
        yield "Output: RESULT SET"
    for column in logical.schema.columns:
        yield f"  {printed(column.name)} {column.type}{'' if column.nullable else ' NOT NULL'}"
    match sink:
        case EntitySink():
            creation = "" if sink.creation is None else _creation(sink.creation)
            yield f"Sink: {sink.kind.value} {sink.relation}, entity {path_text(sink.entity)} of store {printed(sink.store)}{creation}"
            yield f"  value {sink.format.value.label}, key {_key(sink)}"
        case TableSink():
            creation = "" if sink.creation is None else ", which will be created"
            entity = f"entity {path_text(sink.entity)} of store {printed(sink.store)}{creation}"
            yield f"Sink: table {sink.relation}, {entity}; {_kept(sink)}"
        case ViewSink():
            yield f"Sink: materialized view {sink.relation}; {_kept(sink)}"


def _kept(sink: TableSink | ViewSink) -> str:
    if sink.key_columns:
        return f"rows are upserted by {', '.join(map(printed, sink.key_columns))}"
    return (
        "rows are inserted and deleted as a whole"
        if isinstance(sink, ViewSink) and sink.signed
        else "rows are appended"
    )


def _creation(creation: object) -> str:
    options = dict(creation) if isinstance(creation, dict) else {}
    sizes = (("topic.partitions", "partition"), ("topic.replicas", "replica"))
    counts = [counted(int(options[name]), word) for name, word in sizes if options.get(name)]
    return f", which will be created{' with ' if counts else ''}{', '.join(counts)}"


def _key(sink: EntitySink) -> str:
    if sink.format.key is None:
        return "none"
    what = (
        "carried through from the source"
        if sink.carried_key
        else ", ".join(map(printed, sink.format.key_columns))
    )
    return f"{sink.format.key.label} ({what})"


def _mode(plan: physical.SparkPlan) -> Iterator[str]:
    mode = "batch" if plan.bounded else plan.mode.replace("_", "-")
    yield f"Mode: {mode}"
    for reason in plan.reasons:
        yield f"  because {reason.removeprefix(f'{mode}: ')}"
    if plan.target.is_cluster or plan.target.checkpoints == "s3":
        yield f"Target: {plan.target}"


def _delivery(sink: Sink | None) -> Iterator[str]:
    match sink:
        case EntitySink() | TableSink():
            yield f"Delivery: {sink.guarantee.replace('_', '-')}"
        case ViewSink():
            yield "Delivery: exactly-once, in the view's own transactions"
        case _:
            yield "Delivery: to the client alone while it reads; nothing is kept"


def _not_repeatable(logical: LogicalPlan) -> Iterator[str]:
    """Yield the functions that give another value each time, and why the query may call them."""
    names: dict[str, None] = {}
    again = False
    for node in nodes(logical.root):
        called = [call for expression in expressions(node) for call in unrepeatable_calls(expression)]
        names.update((call.function.name, None) for call in called)
        again |= any(unrepeatable(expression) for expression in computed_again(node, items=True))
    if not names:
        return
    yield f"Not repeatable: {', '.join(f'{name}()' for name in names)}"
    if again:
        yield "  allowed because the output's key finds the row that a new value replaces"
    else:
        yield "  allowed because it is computed once for each row, and no row is computed again"


def _sources(logical: LogicalPlan, *, uses_time: bool) -> Iterator[str]:
    yield "Sources:"
    windowed = dict(row_windows(logical.root)) if uses_time else {}
    for scan in logical.scans:
        properties, relation = scan.properties, scan.relation
        alias = "" if scan.alias == relation.name.name else f" AS {printed(scan.alias)}"
        entity = f"entity {_in_store(relation.entity or (), relation.store or '')}"
        if relation.kind is RelationKind.TABLE:
            yield f"  table {relation.name}{alias}, {entity}, as it is when a row of the stream is read"
            yield f"    {_lookup(properties.refresh_ms)}"
            continue
        position = properties.starting_position
        if properties.starting_timestamp_ms is not None and position == "timestamp":
            position = f"timestamp {properties.starting_timestamp_ms}"
        yield f"  {relation.kind.value} {relation.name}{alias}, {entity}, from {position}"
        event_time = properties.event_time
        arrival = event_time.arrival and isinstance(windowed.get(id(scan)), TimeWindow)
        if arrival:
            yield "    event time: when the record is read, the same for all of a batch"
        else:
            yield f"    event time: {printed(event_time.column) if event_time.column else 'time of the record'}"
        watermark = "the clock, by the ends of windows" if arrival else _watermark(scan)
        yield f"    watermark: {watermark if uses_time else 'none; nothing in this query waits for time'}"
        yield from _left_out(properties, windowed.get(id(scan)), calls_users=bool(logical.functions))


def _left_out(properties: SourceProperties, window: RowWindow | None, *, calls_users: bool) -> Iterator[str]:
    """Yield what happens to the records of a source that the query does not use: unreadable, failed in a function, or late."""
    letters, late = properties.dead_letters, properties.late_rows
    topic = _in_store(letters.entity, letters.store) if letters is not None else ""
    if letters is not None and properties.on_error == "dead_letter":
        yield f"    unreadable records are written to {topic} (an interactive query skips them)"
    elif properties.on_error == "ignore":
        yield "    records that cannot be read are skipped"
    if calls_users and properties.on_function_error == "null":
        yield "    where a function of a user fails, its result is NULL"
    elif calls_users and properties.on_function_error == "dead_letter":
        yield f"    where a function of a user fails, the row is skipped and its record is written to {topic}"
    if late is not None and window is not None:
        kind = "pattern" if isinstance(window, MatchRecognize) else "window"
        yield (
            f"    rows too late for their {kind} go to {_in_store(late.entity, late.store)} "
            "(an interactive query drops them)"
        )


def _in_store(entity: EntityPath, store: str) -> str:
    return f"{path_text(entity)} of store {printed(store)}"


def _lookup(refresh_ms: int | None) -> str:
    if refresh_ms is None:
        return "its rows are looked up by key, for each batch of rows"
    return f"it is read whole, and again every {duration_text(refresh_ms)}"


def _watermark(scan: Scan) -> str:
    event_time = scan.properties.event_time
    late = f"less {duration_text(event_time.delay_ms)}" if event_time.delay_ms else "exactly"
    idle = (
        f"a partition without records for {duration_text(event_time.idle_timeout_ms)} is not waited for"
        if event_time.idle_timeout_ms
        else "a partition without records is waited for (see 'source.idle.timeout.millis')"
    )
    return f"the slowest partition's newest event time, {late}; {idle}"


def _state(operator_states: Sequence[State]) -> Iterator[str]:
    yield "State:" if operator_states else "State: none"
    for state in operator_states:
        yield f"  {state.text()}"
    if (warned := warning(operator_states)) is not None:
        yield f"  Warning: {warned}"


# --- the tree


def _operators(operator: Operator, depth: int) -> Iterator[str]:
    key = operator.traits.key
    keyed = f" by {', '.join(_shown(place) for place in key)}" if key else ""
    yield f"{'  ' * depth}{_line(operator.node)} [{operator.mode.value}{keyed}]"
    for below in operator.inputs:
        yield from _operators(below, depth + 1)


def _shown(place: Place) -> str:
    source, name = place
    return f"{printed(source)}.{printed(name)}" if source and source != RANK_SOURCE else printed(name)


def _tree(node: LogicalNode, depth: int) -> Iterator[str]:
    yield f"{'  ' * depth}{_line(node)}"
    for child in node.inputs:
        yield from _tree(child, depth + 1)


def _top_n(node: TopN) -> str:
    partition = ", ".join(map(SHOWN.bare, node.partition_by)) or "all rows"
    order = ", ".join(map(_sorted, node.order_by)) or "arrival"
    places = f"{node.skipped + 1} to {node.limit}" if node.skipped else str(node.limit)
    function = f" by {node.function}" if node.has_ties else ""
    return (
        f"TopN{function} {places} of {partition} by {order}{f' AS {printed(node.rank)}' if node.rank else ''}"
    )


def _window_extremes(node: WindowExtremes) -> str:
    extreme = f"{node.function}({SHOWN.bare(node.value)}) AS {printed(node.alias)}"
    return f"WindowExtremes {extreme}, in place of a join of the input with itself: it is computed once"


def _time_window(node: TimeWindow) -> str:
    advance = f", advance by {duration_text(node.advance_ms)}" if node.advance_ms != node.size_ms else ""
    offset = f", offset {duration_text(node.offset_ms)}" if node.offset_ms else ""
    time = f", by {SHOWN.bare(node.time)}" if node.time is not None else ""
    return f"TimeWindow {node.kind.value} of {duration_text(node.size_ms)}{advance}{offset}{time}"


def _line(node: LogicalNode) -> str:
    match node:
        case Scan():
            alias = "" if node.alias == node.relation.name.name else f" AS {printed(node.alias)}"
            return f"Scan {node.relation.name}{alias}"
        case TimeWindow():
            return _time_window(node)
        case Filter():
            return f"Filter {SHOWN.bare(node.condition)}"
        case Project():
            return f"Project{' distinct' if node.distinct else ''} {_items(node)}"
        case Aggregate():
            groups = ", ".join(SHOWN.bare(key) for key in node.group_by) or "all rows"
            having = f" having {SHOWN.bare(node.having)}" if node.having is not None else ""
            return f"Aggregate {_items(node)} by {groups}{having}"
        case IntervalJoin():
            span = _bounds(node.lower_ms, node.upper_ms)
            return f"IntervalJoin {node.kind.value} {span} on {_pairs(node)}{_residual(node)}"
        case RegularJoin():
            on = f" on {_pairs(node)}" if node.left_keys else ""
            return f"Join {node.kind.value}{on}{_residual(node)}"
        case TopN():
            return _top_n(node)
        case WindowExtremes():
            return _window_extremes(node)
        case MatchRecognize():
            partition = ", ".join(map(SHOWN.bare, node.partition_by)) or "all rows"
            within = f" within {duration_text(node.within_ms)}" if node.within_ms is not None else ""
            rows = ", all rows" if node.all_rows else ""
            pattern = _pattern(node.pattern) if node.parts is None else _part(node.parts)
            return f"MatchRecognize {pattern}{within}{rows} of {partition} AS {printed(node.alias)}"
        case ToChangelog():
            codes = ", ".join(f"{change.value} as {code}" for change, code in node.codes)
            return f"ToChangelog {codes} AS {printed(node.operation)}"
        case FromChangelog():
            codes = ", ".join(f"{code} as {change.value}" for code, change in node.changes)
            return f"FromChangelog {codes} by {', '.join(map(printed, node.key)) or 'no key'}"
        case OverAggregate():
            partition = ", ".join(map(SHOWN.bare, node.partition_by)) or "all rows"
            return f"OverAggregate {', '.join(_framed(*call) for call in node.calls)} of {partition}"
        case Normalize():
            return "Normalize"
        case Materialize():
            return "Materialize"
        case TemporalJoin():
            return f"TemporalJoin {node.kind.value} on {_looked_up(node)}{_residual(node)}"
        case LookupJoin():
            of = node.right.relation.name
            return f"LookupJoin {node.kind.value} of {of} on {_looked_up(node)}{_residual(node)}"
        case SnapshotJoin():
            on = f" on {SHOWN.bare(node.condition)}" if node.condition is not None else ""
            return f"Join {node.kind.value}{on}"
        case Unnest():
            return f"Unnest {'outer ' if node.outer else ''}{SHOWN.bare(node.array)} AS {printed(node.alias)}"
        case Subquery(view=Relation() as view):
            alias = "" if node.alias == view.name.name else f" AS {printed(node.alias)}"
            return f"View {view.name}{alias}, inlined: its query"
        case Subquery():
            return f"Subquery AS {printed(node.alias)}"
        case Sort():
            return f"Sort {', '.join(map(_sorted, node.keys))}".replace('"".', "")
        case Limit():
            return f"Limit {'all' if node.count is None else node.count}{f' offset {node.offset}' if node.offset else ''}"
        case Union():
            return f"Union {'distinct' if node.distinct else 'all'}"
    return type(node).__name__


def _pattern(variables: Sequence[PatternVariable]) -> str:
    return " ".join(quantified(item.name, item.least, item.most, item.greedy) for item in variables)


def _part(part: PatternPart) -> str:
    if part.variable is not None:
        return f"{{- {part.variable} -}}" if part.kind == "excluded" else part.variable
    shown = list(map(_part, part.parts))
    if part.kind == "repetition":
        return quantified(shown[0], part.least, part.most, part.greedy)
    return {
        "sequence": f"({' '.join(shown)})",
        "alternation": f"({' | '.join(shown)})",
        "permutation": f"PERMUTE({', '.join(shown)})",
    }[part.kind]


def _items(node: Project | Aggregate) -> str:
    shown = []
    for item in node.items:
        text = SHOWN.bare(item.expression)
        shown.append(
            text if text.rpartition(".")[2] == printed(item.name) else f"{text} AS {printed(item.name)}"
        )
    return ", ".join(shown)


def _over(step: physical.OverAggregate) -> str:
    calls = ", ".join(call.function for call in step.calls)
    return f"{calls} over each {', '.join(step.partition) or 'relation'} of {step.input}, in the order of {step.time}"


def _framed(name: str, over: Over) -> str:
    unit, preceding = frame_of(over)
    arguments = ", ".join("*" if part == STAR else SHOWN.bare(part) for part in over.arguments)
    start = (
        "UNBOUNDED" if preceding is None else str(preceding) if unit == "ROWS" else duration_text(preceding)
    )
    return f"{over.function.name}({arguments}) {unit} {start} PRECEDING AS {printed(name)}"


def _sorted(key: SortKey) -> str:
    return f"{SHOWN.bare(key.expression)}{' desc' if key.descending else ''}"


def _bounds(lower_ms: int, upper_ms: int) -> str:
    if -lower_ms == upper_ms:
        return f"within {duration_text(upper_ms)}"
    return f"from {_signed(lower_ms)} to {_signed(upper_ms)}"


def _signed(milliseconds: int) -> str:
    return f"{'-' if milliseconds < 0 else '+'}{duration_text(abs(milliseconds))}"


def _residual(node: IntervalJoin | TemporalJoin | LookupJoin | RegularJoin) -> str:
    return f" where {SHOWN.bare(node.condition)}" if node.condition is not None else ""


def _pairs(node: IntervalJoin | RegularJoin) -> str:
    pairs = zip(node.left_keys, node.right_keys, strict=True)
    return " and ".join(f"{SHOWN.bare(left)} = {SHOWN.bare(right)}" for left, right in pairs)


def _looked_up(node: TemporalJoin | LookupJoin) -> str:
    alias = printed(node.right.alias)
    pairs = zip(node.left_keys, node.right_keys, strict=True)
    return " and ".join(f"{SHOWN.bare(left)} = {alias}.{printed(right)}" for left, right in pairs)


# --- the steps


def _steps(plan: physical.SparkPlan) -> Iterator[str]:
    for number, step in enumerate(plan.steps, 1):
        yield f"  {number}. {step.id}: {step_text(step)}"
        if isinstance(step, physical.SqlTransform):
            yield from (f"   {line}" for line in _indented(step.sql))


def step_text(step: physical.Step) -> str:
    """Return what a step does, in a line."""
    match step:
        case physical.ReadEntity():
            return f"read entity {path_text(step.entity)} of store {printed(step.store)} ({step.connector})"
        case physical.ReadRows():
            what = (
                f"changelog of {path_text(step.entity)} by {', '.join(step.key_columns)}"
                if step.upsert
                else path_text(step.entity)
            )
            return f"read rows of {what} of store {printed(step.store)} ({step.connector})"
        case physical.ReadTable():
            return (
                f"read the rows of {path_text(step.entity)} of store {printed(step.store)} ({step.connector})"
            )
        case physical.DecodeRows():
            return f"decode {step.value.label} of {step.input}; {_of_errors(step.on_error)}"
        case physical.AssignWatermark():
            return (
                f"assign watermark to {step.input}{f'; send late rows to {step.late}' if step.late else ''}"
            )
        case physical.SqlTransform():
            return f"Spark SQL over {', '.join(step.inputs)}" if step.inputs else "Spark SQL"
        case physical.TemporalJoin():
            return f"temporal join of {step.left} with {step.right} as {printed(step.right_name)}"
        case physical.LookupJoin():
            entity = f"{path_text(step.entity)} of store {printed(step.store)} ({step.connector})"
            return f"look up {', '.join(step.key_columns)} of {entity} for {step.input}; {_lookup(step.refresh_ms)}"
        case physical.IntervalJoin():
            span = _bounds(step.lower_ms, step.upper_ms)
            return f"{step.how} join of {step.left} with {step.right}, event times {span}"
        case physical.Normalize():
            return f"keep the last row of each {', '.join(step.keys)} of {step.input}; return the changes"
        case physical.Materialize():
            return f"keep the rows of each {', '.join(step.keys)} of {step.input}; return the newest"
        case physical.ChangelogAggregate():
            return f"group {step.input} by {', '.join(step.keys) or 'nothing'}, with deletions"
        case physical.ChangelogJoin():
            return f"{step.how} join of {step.left} with {step.right}, with deletions"
        case physical.WindowExtremes():
            return f"the rows of {step.input} with the {step.function} of {step.value} in each {step.window}"
        case physical.TopN():
            return _first(step)
        case physical.MatchRecognize():
            variables = " ".join(variable.name for variable in step.pattern)
            return f"match {variables} in each {', '.join(step.partition) or 'relation'} of {step.input}"
        case physical.OverAggregate():
            return _over(step)
        case physical.Spool():
            return f"store the rows of {step.input} once, and read them in batches"
        case physical.EncodeRows():
            return f"encode {step.input} as {step.value.label}{f', no value where {step.deleted}' if step.deleted else ''}"
        case physical.WriteEntity():
            entity = f"entity {path_text(step.entity)} of store {printed(step.store)}"
            return f"write {step.input} to {entity}, {step.guarantee.replace('_', '-')}"
        case physical.WriteRows():
            entity = f"{path_text(step.entity)} of store {printed(step.store)} ({step.connector})"
            how = (
                f"upsert {step.input} by {', '.join(step.key_columns)}"
                if step.key_columns
                else f"append {step.input}"
            )
            return f"{how} in {entity}, {step.guarantee.replace('_', '-')}"
        case physical.WriteView():
            return f"write {step.input} to view {step.view}"
        case physical.OptimizeEntity():
            return f"optimize {path_text(step.entity)} of store {printed(step.store)} ({step.connector})"
        case physical.WriteResults():
            return f"send {step.input} to the client{_limit(step.limit)}"


def _limit(rows: int | None) -> str:
    return "" if rows is None else f", at most {counted(rows, 'row')}"


def _of_errors(on_error: str) -> str:
    actions = {
        "terminate": "stop at a record that cannot be read",
        "ignore": "skip records that cannot be read",
    }
    return actions.get(on_error, f"send records that cannot be read to {on_error}")


def _first(step: physical.TopN) -> str:
    ranks = " ranks" if step.function != "row_number" else ""
    return f"the first {step.limit}{ranks} of each {', '.join(step.partition) or 'relation'} of {step.input}"


def _indented(text: str) -> Iterator[str]:
    return (f"  {line}" for line in text.splitlines())


# --- DESCRIBE <statement>


@dataclass(frozen=True)
class RelationFact:
    """A relation as DESCRIBE <statement> names it: `type` is `stream`, `changelog`, …; `store` is None for a view."""

    type: str
    database: str
    schema: str
    name: str
    store: str | None

    def plan_entry(self, organization_id: str | None) -> dict[str, str | None]:
        """Return the JSON object; with `organization_id` the full name begins with it."""
        path = [self.database, self.schema, self.name]
        return {
            "fqn": ".".join(map(quote, path if organization_id is None else [organization_id, *path])),
            "type": self.type.upper(),
            "db_name": self.database,
            "schema_name": self.schema,
            "name": self.name,
            "store_name": self.store,
        }


def describe(
    kind: str,
    *,
    ddl: RelationFact | None = None,
    sink: RelationFact | None = None,
    sources: tuple[RelationFact, ...] = (),
    organization_id: str | None = None,
) -> tuple[str, str]:
    """Return the row of DESCRIBE <statement>: kind and plan as JSON text (client-contract, section 6.6).

    `ddl` is the relation that the statement creates; `sink` and `sources` are those of its query, named with `organization_id`.
    """
    plan: dict[str, object] = {}
    if ddl is not None:
        plan["ddl"] = ddl.plan_entry(None)
    if sink is not None:
        plan["sink"] = sink.plan_entry(organization_id)
    if sources:
        plan["sources"] = [source.plan_entry(organization_id) for source in sources]
    return kind, json.dumps(plan)
