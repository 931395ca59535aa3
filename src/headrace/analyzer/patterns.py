"""MATCH_RECOGNIZE: patterns in the rows of a stream, with Flink's meaning; with that of the SQL standard where Flink has none.

A measure or a condition is an expression over *navigations*: values of the rows that a variable has taken, such as the last price of
`b`. Each navigation has a name, by which the expression knows it as a column of the source `MATCH`, so that the operator only has to
find rows. An aggregate is a function of an array, which are the values of all those rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from headrace.analyzer.coercion import as_type
from headrace.analyzer.event_times import event_times, is_event_time
from headrace.analyzer.expression_binder import ExpressionBinder
from headrace.analyzer.expressions import (
    TRUE,
    Call,
    ColumnReference,
    Expression,
    Literal,
    SortKey,
    over_rows,
    transform,
)
from headrace.analyzer.functions import is_aggregate, is_built_in
from headrace.analyzer.functions.array_aggregates import ARRAY_AGGREGATES, NUMBER_OF_ROWS
from headrace.analyzer.functions.resolver import Overloads, no_overloads
from headrace.analyzer.logical import (
    MATCH,
    Item,
    LogicalNode,
    MatchRecognize,
    Navigation,
    PatternPart,
    PatternVariable,
    Scan,
)
from headrace.analyzer.pattern_parts import no_variable, pattern, subsets, variable_names
from headrace.analyzer.scope import Scope
from headrace.core.errors import Span, UserError
from headrace.core.internal_columns import PREFIX, ROW_TIME, is_internal
from headrace.core.names import printed
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT, NULL, TIMESTAMP_LTZ, VARCHAR
from headrace.core.wording import counted
from headrace.sql.ast import MatchRecognize as MatchNode
from headrace.sql.ast import MatchSemantics, span_of

OFFSET_MAX = 1000
"""How many rows FIRST, LAST and PREV may go: so many are kept of each partition."""
_MOVES = {"FIRST": "first", "LAST": "last", "PREV": "prev"}
_UNSUPPORTED = {
    "NEXT": "A condition can refer to earlier rows only: move it to the next variable.",
    "MATCH_PROCTIME": "MATCH_ROWTIME() returns the event time of the match.",
}
_OF_MATCH = ("CLASSIFIER", "MATCH_NUMBER", "MATCH_ROWTIME")
_ROW_FACTS = {"row_timestamp": "rowtime", "row_key": "rowkey", "row_metadata": "rowmeta"}


def match_recognize(
    node: MatchNode, rows: LogicalNode, alias: str, overloads: Overloads = no_overloads
) -> MatchRecognize:
    """Return the node of `rows MATCH_RECOGNIZE (…) AS alias`; `overloads` returns the users' functions of a name.

    Raises UserError 42601 for clauses that do not fit together, 42703 for names, 42804 for types, 0A000 for what is not supported.
    """
    elements = node.args["pattern"]
    names = variable_names(elements)
    united = subsets(node.args.get("subsets") or (), names)
    bindings = _Navigations()
    scope = Scope(rows.sources, overloads=overloads)
    over_row = ExpressionBinder(scope)
    definitions = _definitions(node, names)

    def binder(current: str | None) -> _PatternBinder:
        return _PatternBinder(
            scope, [*names, *united], bindings, current=current, all_rows=bool(node.args.get("all_rows"))
        )

    def condition(name: str) -> Expression | None:
        if name not in definitions:
            return None
        bound = binder(name)
        return bound.whole(bound.condition(definitions[name], "DEFINE"))

    variables, parts = pattern(elements, condition)
    partition = tuple(over_row.bind(key) for key in node.args.get("partition_by") or ())
    for key in partition:
        _refuse_over_rows(key)
    order = _order(node, rows, over_row)
    items = [
        Item(_partition_name(key, place), bindings.last(None, key)) for place, key in enumerate(partition, 1)
    ]
    measured = binder(None)
    measures = []
    for measure in node.args.get("measures") or ():
        expression = measured.whole(measured.bind(measure.this))
        measures.append(
            Item(measure.alias, as_type(expression, VARCHAR) if expression.type == NULL else expression)
        )
    if node.args.get("all_rows"):
        time = over_row.bind(node.args["order"].expressions[0].this)
        leading, others = _row_columns(rows, partition, [time, *(key.expression for key in order)])
        items += [Item(key.column, bindings.last(None, key)) for key in leading]
        measures += [Item(key.column, bindings.last(None, key)) for key in others]
    items += measures
    _check_names(items, node)
    skip, skip_to = _skip(node, [*names, *united], variables, parts)
    return MatchRecognize(
        input=rows,
        alias=alias,
        partition_by=partition,
        order_by=order,
        items=tuple(items),
        pattern=variables,
        navigations=tuple(bindings.distinct),
        skip=skip,
        skip_to=skip_to,
        within_ms=node.args.get("within_ms"),
        parts=parts,
        subsets=tuple(united.items()),
        all_rows=bool(node.args.get("all_rows")),
        span=span_of(node.this) or span_of(node),
    )


def _row_columns(
    rows: LogicalNode, partition: Sequence[Expression], order: Sequence[Expression]
) -> tuple[list[ColumnReference], list[ColumnReference]]:
    """Return the columns of the rows that are not in `partition`: those of the order, and the others."""
    columns = {
        (source.alias, column.name): ColumnReference(
            source=source.alias, column=column.name, type=column.type, nullable=column.nullable
        )
        for source in rows.sources
        for column in source.schema.columns
    }
    for key in partition:
        columns.pop(_place(key), None)
    leading = [columns.pop(place) for place in dict.fromkeys(map(_place, order)) if place in columns]
    return leading, list(columns.values())


def _place(key: Expression) -> tuple[str, str]:
    return (key.source, key.column) if isinstance(key, ColumnReference) else ("", "")


# --- conditions and skipping


def _definitions(node: MatchNode, names: Sequence[str]) -> Mapping[str, exp.Expr]:
    definitions: dict[str, exp.Expr] = {}
    for definition in node.args.get("define") or ():
        name, place = definition.alias, definition.args["alias"]
        if name not in names:
            raise no_variable(name, names, span_of(place))
        if name in definitions:
            raise UserError(
                SqlState.SYNTAX_ERROR,
                f"DEFINE has {printed(name)} twice",
                hint="Join the conditions with AND.",
                span=span_of(place),
            )
        definitions[name] = definition.this
    return definitions


def _skip(
    node: MatchNode,
    names: Sequence[str],
    pattern: Sequence[PatternVariable],
    parts: PatternPart | None,
) -> tuple[str, str | None]:
    words, to = node.args.get("skip"), node.args.get("skip_to")
    if to is None:
        return "past_last_row" if words == "PAST LAST ROW" else "next_row", None
    if to.name not in names:
        raise no_variable(to.name, names, span_of(to))
    first = pattern[0]
    only = first.least == first.most == 1
    if parts is None and to.name == first.name and first.least and (words == "TO FIRST" or only):
        raise UserError(
            SqlState.SYNTAX_ERROR,
            f"AFTER MATCH SKIP {words} {printed(to.name)} returns to the first row of the match",
            hint="Write AFTER MATCH SKIP TO NEXT ROW.",
            span=span_of(to),
        )
    return "first" if words == "TO FIRST" else "last", to.name


# --- partitions, order and names


def _partition_name(key: Expression, place: int) -> str:
    return (
        key.column
        if isinstance(key, ColumnReference) and not is_internal(key.column)
        else f"partition_{place}"
    )


def _check_names(items: Sequence[Item], node: MatchNode) -> None:
    seen: set[str] = set()
    for item in items:
        if item.name in seen:
            raise UserError(
                SqlState.INVALID_RELATION_DEFINITION,
                f"{printed(item.name)} is the name of two columns of the match",
                hint="A match has the columns of PARTITION BY, the measures and, with ALL ROWS, those of its rows. Rename one with AS.",
                span=item.expression.span or span_of(node),
            )
        seen.add(item.name)


def _order(node: MatchNode, rows: LogicalNode, binder: ExpressionBinder) -> tuple[SortKey, ...]:
    """Return the keys after the event time. Raises UserError 0A000 where that is not the first one, ascending."""
    first, *rest = node.args["order"].expressions
    if bool(first.args.get("desc")) or not is_event_time(binder.bind(first.this), rows):
        shown = sorted(printed(column) for _, column in event_times(rows))
        shown += ["rowtime()"] if isinstance(rows, Scan) else []
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "MATCH_RECOGNIZE must be ordered by the event time first, ascending",
            hint=f"Write ORDER BY {' or '.join(shown)}."
            if shown
            else "Select the event time of the rows in the subquery.",
            span=span_of(first.this),
        )
    keys = tuple(
        SortKey(binder.bind(key.this), bool(key.args.get("desc")), key.args.get("nulls_first"))
        for key in rest
    )
    for key in keys:
        _refuse_over_rows(key.expression)
    return keys


def _refuse_over_rows(expression: Expression) -> None:
    for expression_over_rows in over_rows(expression):
        raise UserError(
            SqlState.GROUPING_ERROR,
            "PARTITION BY and ORDER BY require expressions over a single row",
            hint="Compute it in a subquery of FROM, and use its column.",
            span=expression_over_rows.span,
        )


# --- measures and conditions


class _Navigations:
    """Navigations of a MATCH_RECOGNIZE, each once."""

    def __init__(self) -> None:
        self.distinct: list[Navigation] = []

    def reference(
        self, kind: str, variable: str | None, expression: Expression | None, offset: int, span: Span | None
    ) -> ColumnReference:
        """Return the value as a column of the match."""
        if expression is not None and expression.type == NULL:
            expression = as_type(expression, VARCHAR)
        navigation = Navigation("", kind, variable, expression, offset)
        known = next((item for item in self.distinct if replace(item, name="") == navigation), None)
        if known is None:
            known = replace(navigation, name=f"{PREFIX}navigation_{len(self.distinct) + 1}")
            self.distinct.append(known)
        absent = expression is not None and expression.nullable
        nullable = not kind.endswith("values") and (variable is not None or offset > 0 or absent)
        return ColumnReference(source=MATCH, column=known.name, type=known.type, nullable=nullable, span=span)

    def last(self, variable: str | None, expression: Expression) -> ColumnReference:
        """Return LAST of an expression."""
        return self.reference("last", variable, expression, 0, expression.span)


class _PatternBinder(ExpressionBinder):
    """Binds the condition of the variable `current`, or measures (None). A column without a variable is of the current row, which is
    the last one of the match in a measure."""

    def __init__(
        self,
        scope: Scope,
        variables: Sequence[str],
        navigations: _Navigations,
        *,
        current: str | None,
        all_rows: bool,
    ) -> None:
        super().__init__(scope)
        self._rows = scope
        self._variables = variables
        self._navigations = navigations
        self._current = current
        self._all_rows = all_rows
        self._final = False
        self._branches[MatchSemantics] = self._semantics

    def _read(
        self, kind: str, variable: str | None, expression: Expression | None, offset: int, span: Span | None
    ) -> ColumnReference:
        """Return a navigation, over the whole match if FINAL asks for that."""
        return self._navigations.reference(
            f"final_{kind}" if self._final else kind, variable, expression, offset, span
        )

    def _semantics(self, node: MatchSemantics) -> Expression:
        """Return a call after FINAL or RUNNING, which differ only where each row of a match is a row of the result."""
        word, name = "FINAL" if node.args["final"] else "RUNNING", str(node.this.this).upper()
        if name not in (*_MOVES, "CLASSIFIER") and not is_aggregate(name):
            raise UserError(
                SqlState.SYNTAX_ERROR,
                f"{word} requires FIRST, LAST, PREV, CLASSIFIER or an aggregate, found {name}",
                span=span_of(node),
            )
        if node.args["final"] and self._current is not None:
            raise UserError(
                SqlState.SYNTAX_ERROR,
                "FINAL is not possible in DEFINE: a condition knows the rows up to the current one",
                hint="Leave FINAL out.",
                span=span_of(node),
            )
        self._final = self._all_rows and node.args["final"]
        bound = self.bind(node.this)
        self._final = False
        return bound

    def whole(self, bound: Expression) -> Expression:
        """Return a bound expression with all that it reads of a row as navigations."""
        for expression_over_rows in over_rows(bound):
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "OVER is not supported in MATCH_RECOGNIZE",
                hint="Compute it in a subquery, which MATCH_RECOGNIZE reads.",
                span=expression_over_rows.span,
            )
        return transform(bound, self._moved)

    def _moved(self, expression: Expression) -> Expression:
        if isinstance(expression, ColumnReference) and expression.source != MATCH:
            return self._navigations.last(self._current, expression)
        return expression

    def _column(self, node: exp.Column) -> Expression:
        row = _RowBinder(self._rows, self._variables)
        bound = row.bind(node)
        return self._navigations.last(row.variable, bound) if row.named else bound

    def _call(self, node: exp.Anonymous) -> Expression:
        name, span = str(node.this).upper(), span_of(node)
        if name == "MATCH_ROWTIME":
            if node.expressions:
                raise UserError(SqlState.SYNTAX_ERROR, "MATCH_ROWTIME() accepts no argument", span=span)
            time = ColumnReference(
                source=self._rows.sources[0].alias,
                column=ROW_TIME,
                type=TIMESTAMP_LTZ,
                nullable=False,
                span=span,
            )
            return self._navigations.reference("last", None, time, 0, span)
        if name in _MOVES:
            return self._moved_by(name, node, span)
        if name == "CLASSIFIER":
            return self._read("last", self._classified(node), None, 0, span)
        if name == "MATCH_NUMBER":
            return self._number(node, span)
        if name in _UNSUPPORTED:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"{name} is not supported in MATCH_RECOGNIZE",
                hint=_UNSUPPORTED[name],
                span=span,
            )
        if is_aggregate(name):
            return self._aggregate(name, node, span)
        return super()._call(node) if is_built_in(name) else self._user_call(name, node, span)

    def _user_call(self, name: str, node: exp.Anonymous, span: Span | None) -> Expression:
        """Return the call of a user's function: over a row alone, it is computed before the pattern, in batches."""
        if self._is_aggregate(str(node.this)):
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"the aggregate {name} is not supported in MATCH_RECOGNIZE",
                hint=f"MATCH_RECOGNIZE supports the aggregates {', '.join(sorted(ARRAY_AGGREGATES))}.",
                span=span,
            )
        row = _RowBinder(self._rows, self._variables)
        if not any(_reads_match(argument) for argument in node.expressions):
            call = row.bind(node)
            if row.named <= {self._current}:
                return self._navigations.last(self._current, call)
        return super()._call(node)

    def _classified(self, node: exp.Anonymous) -> str | None:
        """Return the variable or subset in CLASSIFIER(…); None without one."""
        if not node.expressions:
            return None
        argument, *more = node.expressions
        if more or not isinstance(argument, exp.Column) or len(argument.parts) != 1:
            raise UserError(
                SqlState.SYNTAX_ERROR,
                "CLASSIFIER accepts the name of a variable or a subset, or nothing",
                span=span_of(node),
            )
        if argument.name not in self._variables:
            raise no_variable(argument.name, self._variables, span_of(argument))
        return argument.name

    def _number(self, node: exp.Anonymous, span: Span | None) -> Expression:
        if node.expressions:
            raise UserError(SqlState.SYNTAX_ERROR, "MATCH_NUMBER() accepts no argument", span=span)
        if self._current is not None:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "MATCH_NUMBER() is not supported in DEFINE: a match has its number when it is complete",
                hint="Compare it in the WHERE of the SELECT.",
                span=span,
            )
        return self._navigations.reference("number", None, None, 0, span)

    def _filter(self, node: exp.Filter) -> Expression:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "FILTER is not supported in MATCH_RECOGNIZE",
            hint="Write SUM(CASE WHEN condition THEN value END).",
            span=span_of(node),
        )

    def _moved_by(self, name: str, node: exp.Anonymous, span: Span | None) -> Expression:
        """Return FIRST, LAST or PREV of an expression over the columns of one variable."""
        if not 1 <= len(node.expressions) <= 2:
            raise UserError(
                SqlState.SYNTAX_ERROR,
                f"{name} requires an expression and, optionally, a number of rows, found "
                f"{counted(len(node.expressions), 'argument')}",
                span=span,
            )
        row = _RowBinder(self._rows, self._variables)
        value, bound = node.expressions[0], None
        if isinstance(value, exp.Anonymous) and str(value.this).upper() == "CLASSIFIER":
            if (classified := self._classified(value)) is not None:
                row.named.add(classified)
        else:
            bound = row.bind(value)
        _one_variable(row, name, span)
        offset = (
            self._offset(name, node.expressions[1], span)
            if len(node.expressions) == 2
            else int(name == "PREV")
        )
        if name == "PREV" and offset == 0:
            name = "LAST"
        variable = row.variable if row.named or name != "PREV" else self._current
        return self._read(_MOVES[name], variable, bound, offset, span)

    def _offset(self, name: str, node: exp.Expr, span: Span | None) -> int:
        bound = self.bind(node)
        if (
            not isinstance(bound, Literal)
            or not (bound.text or "").isdecimal()
            or int(bound.text or 0) > OFFSET_MAX
        ):
            raise UserError(
                SqlState.SYNTAX_ERROR,
                f"{name} requires a literal number of rows from 0 to {OFFSET_MAX}",
                span=bound.span or span,
            )
        return int(bound.text or 0)

    def _aggregate(self, name: str, node: exp.Anonymous, span: Span | None) -> Expression:
        """Return a function of the array of the values."""
        row = _RowBinder(self._rows, self._variables)
        argument = node.expressions[0] if len(node.expressions) == 1 else None
        if name == "COUNT" and isinstance(argument, exp.Star):
            rows = self._read("values", None, TRUE, 0, span)
            return Call(function=NUMBER_OF_ROWS, arguments=(rows,), type=BIGINT, nullable=False, span=span)
        if name == "COUNT" and isinstance(argument, exp.Column) and isinstance(argument.this, exp.Star):
            variable = argument.parts[0].name
            if variable not in self._variables or len(argument.parts) != 2:
                raise no_variable(variable, self._variables, span)
            rows = self._read("values", variable, TRUE, 0, span)
            return Call(function=NUMBER_OF_ROWS, arguments=(rows,), type=BIGINT, nullable=False, span=span)
        call = row.bind(node)
        if not isinstance(call, Call) or call.function.name not in ARRAY_AGGREGATES or call.distinct:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"{name}{'(DISTINCT …)' if isinstance(call, Call) and call.distinct else ''} is not supported in MATCH_RECOGNIZE",
                hint=f"MATCH_RECOGNIZE supports the aggregates {', '.join(sorted(ARRAY_AGGREGATES))}.",
                span=span,
            )
        _one_variable(row, name, span)
        values = self._read("values", row.variable, call.arguments[0], 0, span)
        return replace(call, function=ARRAY_AGGREGATES[call.function.name], arguments=(values,))


def _reads_match(node: exp.Expr) -> bool:
    """True if an expression contains a call that only a match has a value for."""
    return any(
        isinstance(part, MatchSemantics)
        or (
            isinstance(part, exp.Anonymous)
            and ((name := str(part.this).upper()) in _MOVES or name in _OF_MATCH or is_aggregate(name))
        )
        for part in node.walk()
    )


class _RowBinder(ExpressionBinder):
    """Binds an expression over one row, whose columns may have a variable before them. `named` are those that have come up."""

    def __init__(self, scope: Scope, variables: Sequence[str]) -> None:
        super().__init__(scope)
        self._rows = scope
        self._variables = variables
        self.named: set[str] = set()
        self.unnamed = False

    @property
    def variable(self) -> str | None:
        """The pattern variable that the expression names; None if it names none."""
        return next(iter(self.named), None)

    def _column(self, node: exp.Column) -> Expression:
        parts = list(node.parts)
        if len(parts) > 1 and parts[0].name in self._variables:
            self.named.add(parts[0].name)
            rest = parts[1:]
            fact = _ROW_FACTS.get(rest[0].name)
            if len(rest) == 1 and fact is not None and rest[0].name not in self._rows:
                call = exp.Anonymous(this=fact, expressions=[])
                call.meta.update(rest[0].meta)
                return self.bind(call)
            names = [*reversed(rest), None, None, None]
            node = exp.Column(this=names[0], table=names[1], db=names[2])
        elif len(parts) > 1 and not self._knows(parts[0].name):
            raise no_variable(parts[0].name, self._variables, span_of(node))
        else:
            self.unnamed = True
        return super()._column(node)

    def _knows(self, name: str) -> bool:
        return name in self._rows or any(source.alias == name for source in self._rows.sources)

    def _call(self, node: exp.Anonymous) -> Expression:
        name = str(node.this).upper()
        if name in _MOVES or name in _UNSUPPORTED or name in _OF_MATCH:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"{name} is not supported inside another call of several rows",
                hint="Compute it in a separate measure, and combine the measures in the outer SELECT.",
                span=span_of(node),
            )
        return super()._call(node)


def _one_variable(row: _RowBinder, name: str, span: Span | None) -> None:
    if len(row.named) + (row.unnamed and bool(row.named)) > 1:
        raise UserError(
            SqlState.SYNTAX_ERROR,
            f"{name} requires columns of one variable, found {' and '.join(sorted(map(printed, row.named)))}"
            + (" and columns without one" if row.unnamed else ""),
            hint="Write the same variable before each column of the argument.",
            span=span,
        )
