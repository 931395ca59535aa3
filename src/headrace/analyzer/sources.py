"""The sources of FROM: relations, time windows over them, subqueries and UNNEST."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from headrace.analyzer.catalog_view import BindingContext, resolve_relation
from headrace.analyzer.event_times import is_event_time
from headrace.analyzer.expression_binder import ExpressionBinder
from headrace.analyzer.expressions import ColumnReference, Expression, transform
from headrace.analyzer.fixed_times import fixed_time
from headrace.analyzer.functions import CATALOGUE
from headrace.analyzer.invocation import call
from headrace.analyzer.logical import (
    Aggregate,
    Limit,
    LogicalNode,
    LookupJoin,
    Project,
    Scan,
    SingleRow,
    Sort,
    SourceProperties,
    Subquery,
    TimeWindow,
    Union,
    Unnest,
    WindowKind,
    walk,
)
from headrace.analyzer.patterns import match_recognize
from headrace.analyzer.scope import UNNAMED, Scope
from headrace.analyzer.sessions import groups_sessions, rows_of_sessions
from headrace.analyzer.source_properties import source_properties, table_properties
from headrace.analyzer.traits import traits
from headrace.catalog.objects import Relation, RelationKind, StoreFacts
from headrace.connectors.base import RecordSource, StoreDescriptor
from headrace.core.errors import InternalError, Span, UserError
from headrace.core.names import Identifier, printed
from headrace.core.properties import value_of
from headrace.core.schema import Column
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT, Array, Map, Struct
from headrace.core.wording import counted
from headrace.sql.ast import (
    ChangelogFunction,
    Properties,
    duration_text,
    length_span,
    placed,
    properties_of,
    span_of,
)
from headrace.sql.ast import MatchRecognize as MatchNode
from headrace.sql.ast import TimeWindow as WindowNode

WINDOW_PANES_MAX = 1000
"""Windows that one row may be in: each is a copy of the row, and a column of Spark's plan."""


def is_snapshot(node: LogicalNode) -> bool:
    """True when nothing under `node` is unbounded: all relations are materialized views, system relations or tables."""
    return all(scan.relation.kind.is_snapshot for scan in walk(node) if isinstance(scan, Scan))


def refuse_tables(node: LogicalNode) -> None:
    """Raise 0A000 for a table in a continuous query, or beside a stream, that no stream is joined with: it has no changes."""
    if isinstance(node, Scan) and node.relation.kind is RelationKind.TABLE:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"a continuous query, or a query that also reads streams, can read the table {node.relation.name} "
            "only in a join",
            hint="Write FROM stream [LEFT] JOIN table ON stream.column = table.column, with the table itself on the right; "
            "or a query of tables alone, which ends when it has read them.",
            span=node.span,
        )
    for below in (node.left,) if isinstance(node, LookupJoin) else node.inputs:
        refuse_tables(below)


class SourceBinder:
    """Binds the sources of the FROM of `select`.

    `named` are the WITH queries in force, `subquery` binds a nested query, `view` a view under an alias, at a place, as its query, and
    `changelog` a conversion of changes.
    """

    def __init__(
        self,
        select: exp.Select,
        context: BindingContext,
        named: Mapping[str, LogicalNode],
        subquery: Callable[[exp.Expr], LogicalNode],
        view: Callable[[Relation, str, Span | None], LogicalNode],
        changelog: Callable[[ChangelogFunction, LogicalNode], LogicalNode],
    ) -> None:
        self._select = select
        self._context = context
        self._named = named
        self._subquery = subquery
        self._view = view
        self._changelog = changelog
        self._unnamed = 0

    def bind(self, node: exp.Expr) -> LogicalNode:
        """Bind a source; raises UserError 3D020, 3D008, 42601, 53000 and 0A000 at its position."""
        if isinstance(node, WindowNode):
            rows = self._rows(node.this, node)
            time = None
            if not is_snapshot(rows) and not traits(rows).insert_only:
                time = fixed_time(node, rows)
            elif node.args.get("time") is not None:
                _check_time(node.args["time"], rows)
            window = replace(_window(node, rows), time=time)
            if window.kind is WindowKind.SESSION and not groups_sessions(self._select, node):
                return Subquery(
                    self._subquery(rows_of_sessions(node, rows)), rows.sources[0].alias, window.span
                )
            return window
        if isinstance(node, ChangelogFunction):
            return self._changelog(node, self._rows(node.this, node))
        if isinstance(node, MatchNode):
            return self._matches(node)
        if isinstance(node, exp.Unnest) and not node.args.get("function"):
            return bind_unnest(node, SingleRow(), Scope((), overloads=self._context.overloads))
        return self._rows(node, node)

    def _matches(self, node: MatchNode) -> LogicalNode:
        rows = self._rows(node.this, node.this)
        if is_snapshot(rows):
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "MATCH_RECOGNIZE requires a STREAM: the rows of this source have no event time",
                hint="Match the rows of the stream, and store the matches.",
                span=span_of(node.this),
            )
        alias = node.args.get("alias")
        if alias is not None and alias.columns:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "the columns of a match cannot be renamed after its alias",
                hint="Name them in MEASURES: expression AS name.",
                span=span_of(alias.columns[0]),
            )
        return match_recognize(
            node, rows, alias.name if alias is not None else rows.sources[0].alias, self._context.overloads
        )

    def _rows(self, source: exp.Expr, outer: exp.Expr) -> LogicalNode:
        """Return a relation, a WITH query or a subquery, with the alias and the properties that `outer` has."""
        alias = outer.args.get("alias")
        columns = alias.columns if alias is not None else []
        if isinstance(source, exp.Subquery):
            self._unnamed += 1
            name = alias.name if alias is not None else f"{UNNAMED}{self._unnamed}"
            return Subquery(renamed(self._subquery(source.this), columns), name, span_of(source))
        if not isinstance(source, exp.Table):
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"{'LATERAL TABLE' if isinstance(source, exp.Unnest) else type(source).__name__.upper()} is not supported here in FROM",
                hint="Write FROM relation, LATERAL TABLE(function(…)) AS t."
                if isinstance(source, exp.Unnest)
                else None,
                span=span_of(source),
            )
        name, given = alias.name if alias is not None else source.name, properties_of(outer)
        if len(source.parts) == 1 and source.name in self._named:
            if given:
                raise UserError(
                    SqlState.INVALID_PARAMETER,
                    f"{printed(source.name)} is a query, and accepts no source properties",
                    hint="Put WITH (…) after the relation inside.",
                    span=given.span(next(iter(given))),
                )
            return Subquery(renamed(self._named[source.name], columns), name, span_of(source))
        if columns and outer is source:
            return Subquery(renamed(self._subquery(_all_of(source)), columns), name, span_of(source))
        if columns:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "the columns of a window cannot be renamed after its alias",
                hint="Write (SELECT column AS name FROM relation) AS alias in the window.",
                span=span_of(columns[0]),
            )
        relation, span = named_relation(source, self._context)
        if relation.kind is RelationKind.VIEW:
            _refuse_properties(relation, given)
            return self._view(relation, name, span)
        scan = _scan(relation, span, name, given, self._context)
        if self._context.continuous is None or not scan.relation.kind.is_snapshot:
            return scan
        if scan.relation.kind is RelationKind.TABLE:
            return scan
        if scan.relation.kind is RelationKind.SYSTEM:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"a continuous query cannot read {scan.relation.name}: a system relation does not report its "
                "changes",
                hint="SELECT it alone, or with materialized views.",
                span=scan.span,
            )
        return self._view(scan.relation, name, scan.span)


def _all_of(relation: exp.Table) -> exp.Select:
    """Return `SELECT *` of a relation, with its properties, and without the alias and the time that it has in a join."""
    source = relation.copy()
    source.set("alias", None)
    source.set("system_time", None)
    return placed(exp.Select(expressions=[exp.Star()], from_=exp.From(this=source)), relation)


def renamed(node: LogicalNode, names: Sequence[exp.Expr]) -> LogicalNode:
    """Return a query with other names for its columns, as `AS t(a, b)` and `WITH t(a, b) AS` give them; none: as it is."""
    if not names:
        return node
    known = node.schema.names
    if len(names) != len(known):
        raise UserError(
            SqlState.INVALID_RELATION_DEFINITION,
            f"expected {len(known)} column names, found {len(names)}",
            hint=f"The query returns {', '.join(map(printed, known))}.",
            span=span_of(names[0]),
        )
    new = dict(zip(known, (name.name for name in names), strict=True))

    def change(part: LogicalNode) -> LogicalNode:
        match part:
            case Project() | Aggregate():
                items = (replace(item, name=name.name) for item, name in zip(part.items, names, strict=True))
                return replace(part, items=tuple(items))
            case Sort():
                keys = (replace(key, expression=transform(key.expression, output)) for key in part.keys)
                return replace(part, input=change(part.input), keys=tuple(keys))
            case Limit():
                return replace(part, input=change(part.input))
            case Union():
                return replace(part, branches=(change(part.branches[0]), *part.branches[1:]))
        raise InternalError(f"no columns to name in {type(part).__name__}")

    def output(expression: Expression) -> Expression:
        if isinstance(expression, ColumnReference) and not expression.source:
            return replace(expression, column=new[expression.column])
        return expression

    return change(node)


def _refuse_properties(relation: Relation, given: Properties) -> None:
    if given:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"a {relation.kind.value.replace('_', ' ')} accepts no source properties",
            hint=f"Specify them in the query of the {relation.kind.value.replace('_', ' ')}.",
            span=given.span(next(iter(given))),
        )


def _scan(
    relation: Relation, span: Span | None, alias: str, given: Properties, context: BindingContext
) -> Scan:
    store = context.catalog.store(relation.store) if relation.store is not None else None
    descriptor = (
        context.connectors(store.type) if store is not None and context.connectors is not None else None
    )
    properties = _properties(relation, descriptor, given, context, span)
    read = descriptor.source if descriptor is not None and not relation.kind.is_snapshot else None
    return Scan(
        relation,
        alias,
        properties,
        store_type=store.type if store is not None else "",
        metadata=read.metadata if read is not None else None,
        headers=isinstance(read, RecordSource) and read.headers,
        span=span,
    )


def named_relation(node: exp.Table, context: BindingContext) -> tuple[Relation, Span | None]:
    """Return the relation that a name in FROM means, and the name's place; raises UserError as `resolve_relation`."""
    span = _table_span(node)
    parts = [Identifier(part.name, span_of(part)) for part in node.parts]
    session = context.session
    relation = resolve_relation(
        parts, catalog=context.catalog, database=session.database, schema=session.schema, span=span
    )
    return relation, span


def _table_span(node: exp.Table) -> Span | None:
    spans = [span for span in map(span_of, node.parts) if span is not None]
    return Span(spans[0].start, spans[-1].end, spans[0].line, spans[0].column) if spans else None


def _check_readable(relation: Relation, connector: StoreDescriptor, span: Span | None) -> None:
    rows = connector.row_source
    if connector.source is None:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED, f"queries cannot read stores of type {connector.label}", span=span
        )
    if rows is not None and relation.kind is RelationKind.CHANGELOG and not rows.upserts:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"stores of type {connector.label} are read as streams, not as a changelog",
            hint="CREATE STREAM over the entity, and read that.",
            span=span,
        )


def _properties(
    relation: Relation,
    connector: StoreDescriptor | None,
    given: Properties,
    context: BindingContext,
    span: Span | None,
) -> SourceProperties:
    if relation.kind is RelationKind.TABLE:
        joined = context.continuous is not None
        return table_properties(relation, given.entries, connector, span, joined=joined)
    if relation.kind.is_snapshot:
        _refuse_properties(relation, given)
        return SourceProperties()
    if connector is not None:
        _check_readable(relation, connector, span)
        for spec in connector.row_source.needs if connector.row_source is not None else ():
            if value_of(given.entries, spec) is None:
                raise UserError(
                    SqlState.MISSING_PARAMETER,
                    f"reading {relation.name} requires the source property '{spec.name}': {spec.doc}",
                    hint=f"FROM {relation.name.name} WITH ('{spec.name}' = '…').",
                    span=span,
                )

    def store(name: str) -> StoreFacts | None:
        # A reader of the relation need not know its store; any other is one that the user names.
        return context.catalog.store(name) if name == relation.store else context.catalog.named_store(name)

    return source_properties(relation, given.entries, connector, store)


def _check_time(column: exp.Expr, rows: LogicalNode) -> None:
    """Raise 0A000 unless the column that a window names is the event time of its rows."""
    time = ExpressionBinder(Scope(rows.sources)).bind(column)
    arrival = isinstance(rows, Scan) and rows.properties.event_time.arrival
    if arrival or not is_event_time(time, rows):
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "a window is over the event time of its rows, and this column is not their event time",
            hint="Set it with FROM relation WITH ('timestamp' = 'column'), or in the relation's declaration.",
            span=time.span,
        )


def _window(node: WindowNode, rows: LogicalNode) -> TimeWindow:
    span = getattr(rows, "span", None)
    kind, size, advance = WindowKind[node.kind], node.size_ms, node.advance_ms or node.size_ms
    word = "STEP BY" if kind is WindowKind.CUMULATE else "ADVANCE BY"
    if advance > size:
        raise UserError(
            SqlState.SYNTAX_ERROR,
            f"expected {word} of at most the SIZE of {duration_text(size)}, found {duration_text(advance)}",
            hint="Rows between two windows would belong to no window: filter them with WHERE, and use TUMBLE.",
            span=length_span(node),
        )
    if kind is WindowKind.CUMULATE and size % advance:
        raise UserError(
            SqlState.SYNTAX_ERROR,
            f"expected a SIZE that is a multiple of the STEP of {duration_text(advance)}, found {duration_text(size)}",
            hint="The last of the growing windows must end with SIZE.",
            span=length_span(node),
        )
    panes = -(-size // advance)
    if panes > WINDOW_PANES_MAX:
        raise UserError(
            SqlState.CONFIGURATION_LIMIT_EXCEEDED,
            f"every row would belong to {panes} windows, expected at most {WINDOW_PANES_MAX}",
            hint=f"Use {word} {duration_text(_least_advance(size))} or more, or a smaller SIZE.",
            span=length_span(node),
        )
    offset = node.offset_ms % (size if kind is WindowKind.CUMULATE else advance)
    return TimeWindow(rows, kind, size, advance, span, offset)


def _least_advance(size_ms: int) -> int:
    """Return a watermark step for a window: whole seconds if it is longer than one."""
    least = -(-size_ms // WINDOW_PANES_MAX)
    return least if least <= 1000 else -(-least // 1000) * 1000


def bind_unnest(node: exp.Unnest, left: LogicalNode, scope: Scope, *, outer: bool = False) -> Unnest:
    """Return `left`, each row once for every element of an array, with `outer` at least once; raises UserError 42804 and 42601."""
    span = span_of(node)
    if len(node.expressions) != 1:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "UNNEST requires exactly one array",
            hint="Write a CROSS JOIN UNNEST(…) for each array.",
            span=span,
        )
    binder = ExpressionBinder(scope)
    if node.args.get("function"):
        return _bind_table_function(node, left, binder, outer=outer)
    array = binder.bind(node.expressions[0])
    if isinstance(array.type, Map):
        array = call(CATALOGUE["MAP_ENTRIES"], [array], span=array.span)
    if not isinstance(array.type, Array):
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            f"UNNEST requires an ARRAY or a MAP, found {array.type}",
            hint="Convert text with SPLIT(text, separator) or JSON_QUERY(… RETURNING ARRAY<…>).",
            span=array.span or span,
        )
    alias = node.args.get("alias")
    names = [column.name for column in alias.columns] if alias is not None else []
    offset = node.args.get("offset")
    element = array.type.element
    if alias is not None and not names and offset is None:
        # As in PostgreSQL and Flink: fields keep their names, and an element has the name of the alias.
        names = [name for name, _ in element.fields] if isinstance(element, Struct) else []
        names = names if len(names) > 1 else [alias.name]
    if isinstance(offset, exp.Identifier):
        names.append(offset.name)
    place = names.pop() if offset is not None and len(names) > 1 else None
    columns = [Column(name, element) for name in names[:1]]
    if isinstance(element, Struct) and 1 < len(names) == len(element.fields):
        columns = [Column(name, kind) for name, (_, kind) in zip(names, element.fields, strict=True)]
    if len(columns) != len(names) or not names or (offset is not None and place is None):
        fields = (
            f", or for the {counted(len(element.fields), 'field')} of each STRUCT"
            if isinstance(element, Struct)
            else ""
        )
        raise UserError(
            SqlState.SYNTAX_ERROR,
            f"UNNEST needs a name for the element{fields}{' and one for its place' if offset is not None else ''}, "
            f"found {len(names) + (place is not None)}",
            hint="Write UNNEST(array) AS t(element), or UNNEST(array) WITH ORDINALITY AS t(element, position).",
            span=span,
        )
    ordinality = Column(place, BIGINT, nullable=outer) if place is not None else None
    name = alias.name if alias is not None else "unnest"
    return Unnest(left, array, name or "unnest", tuple(columns), ordinality, outer)


def _bind_table_function(
    node: exp.Unnest, left: LogicalNode, binder: ExpressionBinder, *, outer: bool
) -> Unnest:
    """Return `left`, each row once for every row of a table function, and with `outer` once without one.

    The columns are called as the function declares, or by the alias.
    """
    array, declared = binder.table_function(node.expressions[0])
    alias = node.args.get("alias")
    names = [column.name for column in alias.columns] if alias is not None else []
    names = names or [name for name, _ in declared]
    if len(names) != len(declared):
        raise UserError(
            SqlState.SYNTAX_ERROR,
            f"the table function returns {counted(len(declared), 'column')}, but the alias names {len(names)}",
            hint=f"Name each column: AS t({', '.join(name for name, _ in declared)}).",
            span=span_of(node),
        )
    columns = tuple(Column(name, kind) for name, (_, kind) in zip(names, declared, strict=True))
    return Unnest(left, array, (alias.name if alias is not None else "") or "unnest", columns, None, outer)
