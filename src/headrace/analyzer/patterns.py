"""MATCH_RECOGNIZE: patterns in the rows of a stream, with Flink's meaning.

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
from headrace.analyzer.functions import CATALOGUE, is_aggregate
from headrace.analyzer.functions.signature import Function, PerType, Spelling, function
from headrace.analyzer.logical import (
    MATCH,
    Item,
    LogicalNode,
    MatchRecognize,
    Navigation,
    PatternVariable,
    Scan,
)
from headrace.analyzer.scope import Scope
from headrace.core.errors import InternalError, Span, UserError
from headrace.core.internal_columns import PREFIX, ROW_TIME, is_internal
from headrace.core.names import printed
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT, NULL, TIMESTAMP_LTZ, VARCHAR, Array, DataType, Decimal
from headrace.sql.ast import MatchRecognize as MatchNode
from headrace.sql.ast import span_of

OFFSET_MAX = 1000
"""How many rows FIRST, LAST and PREV may go: so many are kept of each partition."""
_MOVES = {"FIRST": "first", "LAST": "last", "PREV": "prev"}
_UNSUPPORTED = {
    "NEXT": "A condition can refer to earlier rows only: move it to the next variable.",
    "CLASSIFIER": "Write one measure for each variable.",
    "MATCH_NUMBER": None,
    "MATCH_PROCTIME": "MATCH_ROWTIME() returns the event time of the match.",
}
_ROW_FACTS = {"row_timestamp": "rowtime", "row_key": "rowkey", "row_metadata": "rowmeta"}


def match_recognize(node: MatchNode, rows: LogicalNode, alias: str) -> MatchRecognize:
    """Return the node of `rows MATCH_RECOGNIZE (…) AS alias`.

    Raises UserError 42601 for clauses that do not fit together, 42703 for names, 42804 for types, 0A000 for what is not supported.
    """
    elements = node.args["pattern"]
    names = [element.this.name for element in elements]
    _check_pattern(elements)
    bindings = _Navigations()
    scope = Scope(rows.sources)
    over_row = ExpressionBinder(scope)
    definitions = _definitions(node, names)

    def condition(name: str) -> Expression | None:
        if name not in definitions:
            return None
        binder = _PatternBinder(scope, names, bindings, current=name)
        return binder.whole(binder.condition(definitions[name], "DEFINE"))

    pattern = tuple(
        PatternVariable(
            element.this.name,
            element.args["least"],
            element.args.get("most"),
            element.args["greedy"],
            condition(element.this.name),
        )
        for element in elements
    )
    partition = tuple(over_row.bind(key) for key in node.args.get("partition_by") or ())
    for key in partition:
        _refuse_over_rows(key)
    items = [
        Item(_partition_name(key, place), bindings.last(None, key)) for place, key in enumerate(partition, 1)
    ]
    measured = _PatternBinder(scope, names, bindings, current=None)
    for measure in node.args["measures"]:
        expression = measured.whole(measured.bind(measure.this))
        items.append(
            Item(measure.alias, as_type(expression, VARCHAR) if expression.type == NULL else expression)
        )
    _check_names(items, node)
    skip, skip_to = _skip(node, names, pattern)
    return MatchRecognize(
        input=rows,
        alias=alias,
        partition_by=partition,
        order_by=_order(node, rows, over_row),
        items=tuple(items),
        pattern=pattern,
        navigations=tuple(bindings.distinct),
        skip=skip,
        skip_to=skip_to,
        within_ms=node.args.get("within_ms"),
        span=span_of(node.this) or span_of(node),
    )


# --- the pattern


def _check_pattern(elements: Sequence[exp.Expr]) -> None:
    """Raise UserError 0A000 if a variable occurs twice, an empty match is possible, or the end of a match is undecidable."""
    names = [element.this.name for element in elements]
    for place, element in enumerate(elements):
        if element.this.name in names[:place]:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"the variable {printed(element.this.name)} occurs twice in the PATTERN",
                hint="Rename the second variable, and repeat the condition for it.",
                span=span_of(element),
            )
    last = elements[-1]
    least, most, greedy = last.args["least"], last.args.get("most"), last.args["greedy"]
    if least == 0:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"the PATTERN ends with {printed(last.this.name)}, which is optional: a match is complete without "
            "it",
            hint="Leave it out, or require one row.",
            span=span_of(last),
        )
    if greedy and least != most:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"the PATTERN ends with {printed(last.this.name)}, which matches as many rows as possible: its "
            "last row is never known",
            hint=(
                "End the pattern with a variable of one row, or match as few rows as possible: "
                f"{printed(last.this.name)}+?."
            ),
            span=span_of(last),
        )


def _definitions(node: MatchNode, names: Sequence[str]) -> Mapping[str, exp.Expr]:
    definitions: dict[str, exp.Expr] = {}
    for definition in node.args.get("define") or ():
        name, place = definition.alias, definition.args["alias"]
        if name not in names:
            raise _no_variable(name, names, span_of(place))
        if name in definitions:
            raise UserError(
                SqlState.SYNTAX_ERROR,
                f"DEFINE has {printed(name)} twice",
                hint="Join the conditions with AND.",
                span=span_of(place),
            )
        definitions[name] = definition.this
    return definitions


def _no_variable(name: str, names: Sequence[str], span: Span | None) -> UserError:
    return UserError(
        SqlState.UNDEFINED_COLUMN,
        f"the PATTERN has no variable {printed(name)}",
        hint=f"It has {', '.join(map(printed, names))}.",
        span=span,
    )


def _skip(
    node: MatchNode, names: Sequence[str], pattern: Sequence[PatternVariable]
) -> tuple[str, str | None]:
    words, to = node.args.get("skip"), node.args.get("skip_to")
    if to is None:
        return "past_last_row" if words == "PAST LAST ROW" else "next_row", None
    if to.name not in names:
        raise _no_variable(to.name, names, span_of(to))
    first = pattern[0]
    only = first.least == first.most == 1
    if to.name == first.name and first.least and (words == "TO FIRST" or only):
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
                hint="A match has the columns of PARTITION BY and the measures. Rename one of them with AS.",
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
        self, kind: str, variable: str | None, expression: Expression, offset: int, span: Span | None
    ) -> ColumnReference:
        """Return the value as a column of the match."""
        expression = as_type(expression, VARCHAR) if expression.type == NULL else expression
        navigation = Navigation("", kind, variable, expression, offset)
        known = next((item for item in self.distinct if replace(item, name="") == navigation), None)
        if known is None:
            known = replace(navigation, name=f"{PREFIX}navigation_{len(self.distinct) + 1}")
            self.distinct.append(known)
        nullable = kind != "values" and (variable is not None or offset > 0 or expression.nullable)
        return ColumnReference(source=MATCH, column=known.name, type=known.type, nullable=nullable, span=span)

    def last(self, variable: str | None, expression: Expression) -> ColumnReference:
        """Return LAST of an expression."""
        return self.reference("last", variable, expression, 0, expression.span)


class _PatternBinder(ExpressionBinder):
    """Binds the condition of the variable `current`, or measures (None). A column without a variable is of the current row, which is
    the last one of the match in a measure."""

    def __init__(
        self, scope: Scope, variables: Sequence[str], navigations: _Navigations, *, current: str | None
    ) -> None:
        super().__init__(scope)
        self._rows = scope
        self._variables = variables
        self._navigations = navigations
        self._current = current

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
        if name in _UNSUPPORTED:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"{name} is not supported in MATCH_RECOGNIZE",
                hint=_UNSUPPORTED[name],
                span=span,
            )
        return self._aggregate(name, node, span) if is_aggregate(name) else super()._call(node)

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
                f"{len(node.expressions)} arguments",
                span=span,
            )
        row = _RowBinder(self._rows, self._variables)
        bound = row.bind(node.expressions[0])
        _one_variable(row, name, span)
        offset = (
            self._offset(name, node.expressions[1], span)
            if len(node.expressions) == 2
            else int(name == "PREV")
        )
        if name == "PREV" and offset == 0:
            name = "LAST"
        variable = row.variable if row.named or name != "PREV" else self._current
        return self._navigations.reference(_MOVES[name], variable, bound, offset, span)

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
            rows = self._navigations.reference("values", None, TRUE, 0, span)
            return Call(function=_NUMBER_OF_ROWS, arguments=(rows,), type=BIGINT, nullable=False, span=span)
        if name == "COUNT" and isinstance(argument, exp.Column) and isinstance(argument.this, exp.Star):
            variable = argument.parts[0].name
            if variable not in self._variables or len(argument.parts) != 2:
                raise _no_variable(variable, self._variables, span)
            rows = self._navigations.reference("values", variable, TRUE, 0, span)
            return Call(function=_NUMBER_OF_ROWS, arguments=(rows,), type=BIGINT, nullable=False, span=span)
        call = row.bind(node)
        if not isinstance(call, Call) or call.function.name not in _OVER_ROWS or call.distinct:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"{name}{'(DISTINCT …)' if isinstance(call, Call) and call.distinct else ''} is not supported in MATCH_RECOGNIZE",
                hint=f"MATCH_RECOGNIZE supports the aggregates {', '.join(sorted(_OVER_ROWS))}.",
                span=span,
            )
        _one_variable(row, name, span)
        values = self._navigations.reference("values", row.variable, call.arguments[0], 0, span)
        return replace(call, function=_OVER_ROWS[call.function.name], arguments=(values,))


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
            raise _no_variable(parts[0].name, self._variables, span_of(node))
        else:
            self.unnamed = True
        return super()._column(node)

    def _knows(self, name: str) -> bool:
        return name in self._rows or any(source.alias == name for source in self._rows.sources)

    def _call(self, node: exp.Anonymous) -> Expression:
        name = str(node.this).upper()
        if name in _MOVES or name in _UNSUPPORTED or name == "MATCH_ROWTIME":
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


def _sum(kind: str) -> str:
    return f"aggregate({{0}}, CAST(NULL AS {kind}), (a, v) -> CAST(coalesce(a + v, a, v) AS {kind}))"


_COUNT = "size(filter({0}, v -> v IS NOT NULL))"


def _mean(kinds: Sequence[DataType], result: DataType) -> Spelling:
    """Return the spelling of AVG over a match: the quotient of two DECIMALs, else of DOUBLEs, as for groups."""
    (values,) = kinds
    if not isinstance(values, Array):
        raise InternalError(f"the mean of {values}")
    if isinstance(values.element, Decimal) and isinstance(result, Decimal):
        return f"CAST({_sum(f'DECIMAL(38, {values.element.scale})')} / CAST(nullif({_COUNT}, 0) AS DECIMAL(20, 0)) AS {{type}})"
    return f"({_sum('DOUBLE')} / nullif({_COUNT}, 0))"


def _over_array(name: str, spark: Spelling | PerType) -> Function:
    return function(name, "array", lambda kinds: kinds[0], CATALOGUE[name].doc, spark=spark)


_OVER_ROWS: Mapping[str, Function] = {
    "COUNT": _over_array("COUNT", f"CAST({_COUNT} AS BIGINT)"),
    "SUM": _over_array("SUM", _sum("{type}")),
    "AVG": _over_array("AVG", PerType(_mean)),
    "MIN": _over_array("MIN", "array_min({0})"),
    "MAX": _over_array("MAX", "array_max({0})"),
}
_NUMBER_OF_ROWS = function(
    "COUNT", "array", BIGINT, CATALOGUE["COUNT"].doc, spark="CAST(size({0}) AS BIGINT)"
)
