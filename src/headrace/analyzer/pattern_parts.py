"""Structure of a PATTERN: a sequence in Flink's meaning, or parts in the meaning of the SQL standard."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from sqlglot import exp

from headrace.analyzer.expressions import Expression
from headrace.analyzer.logical import PatternPart, PatternVariable
from headrace.core.errors import Span, UserError
from headrace.core.names import printed
from headrace.core.sqlstate import SqlState
from headrace.sql.ast import PatternVariable as VariableNode
from headrace.sql.ast import span_of

VARIABLES_MAX = 200
"""Variables that a pattern in the meaning of the SQL standard may contain: each row is compared with as many."""


def variable_names(elements: Sequence[exp.Expr]) -> list[str]:
    """Return the different variables of a PATTERN, in the order in which they first occur."""
    return list(dict.fromkeys(variable.this.name for variable in _variables(elements)))


def subsets(nodes: Sequence[exp.Expr], names: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """Return the variables of each subset. Raises UserError 42601 for a name that is used twice, 42703 for an unknown variable."""
    known: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        name = node.this.name
        if name in names or name in known:
            raise UserError(
                SqlState.SYNTAX_ERROR,
                f"SUBSET defines {printed(name)}, which is already a variable or a subset of this MATCH_RECOGNIZE",
                hint="Rename the subset.",
                span=span_of(node.this),
            )
        for member in node.expressions:
            if member.name not in names:
                raise no_variable(member.name, names, span_of(member))
        known[name] = tuple(dict.fromkeys(member.name for member in node.expressions))
    return known


def no_variable(name: str, names: Sequence[str], span: Span | None) -> UserError:
    """Return the error 42703 for a name that is no variable of the pattern."""
    return UserError(
        SqlState.UNDEFINED_COLUMN,
        f"the PATTERN has no variable {printed(name)}",
        hint=f"It has {', '.join(map(printed, names))}.",
        span=span,
    )


def pattern(
    elements: Sequence[exp.Expr], condition: Callable[[str], Expression | None]
) -> tuple[tuple[PatternVariable, ...], PatternPart | None]:
    """Return the variables with their conditions, and the parts of a pattern that is no sequence in Flink's meaning.

    Raises UserError 0A000 for a pattern that may match no row, 53000 for too many variables.
    """
    if _is_sequence(elements):
        return tuple(
            PatternVariable(
                element.this.name,
                element.args["least"],
                element.args.get("most"),
                element.args["greedy"],
                condition(element.this.name),
            )
            for element in elements
        ), None
    every = list(_variables(elements))
    if len(every) > VARIABLES_MAX:
        raise UserError(
            SqlState.CONFIGURATION_LIMIT_EXCEEDED,
            f"expected at most {VARIABLES_MAX} variables in this PATTERN, found {len(every)}",
            hint="Repeat a group with a quantifier: (a b){10}.",
            span=span_of(every[VARIABLES_MAX]),
        )
    whole = PatternPart("sequence", parts=tuple(_part(element, excluded=False) for element in elements))
    if _may_be_empty(whole):
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            "the PATTERN may match no row: a match without rows is not supported",
            hint="Require one row, for example with + instead of *.",
            span=span_of(every[0]),
        )
    names = variable_names(elements)
    return tuple(PatternVariable(name, 1, 1, True, condition(name)) for name in names), whole


def _variables(elements: Sequence[exp.Expr]) -> Iterator[exp.Expr]:
    for element in elements:
        if isinstance(element, VariableNode):
            yield element
        else:
            yield from _variables(element.expressions)


def _is_sequence(elements: Sequence[exp.Expr]) -> bool:
    """True if Flink has a meaning for the pattern: different variables, of which the last has a known last row."""
    last = elements[-1]
    names = [element.this.name for element in elements if isinstance(element, VariableNode)]
    return (
        len(names) == len(elements)
        and len(set(names)) == len(names)
        and last.args["least"] > 0
        and not (last.args["greedy"] and last.args["least"] != last.args.get("most"))
    )


def _part(element: exp.Expr, *, excluded: bool) -> PatternPart:
    if isinstance(element, VariableNode):
        part = PatternPart("excluded" if excluded else "row", variable=element.this.name)
    else:
        kind = element.args["kind"]
        excluded = excluded or kind == "EXCLUSION"
        parts = tuple(_part(item, excluded=excluded) for item in element.expressions)
        part = PatternPart("sequence" if kind == "EXCLUSION" else kind.lower(), parts=parts)
    least, most = element.args["least"], element.args.get("most")
    if (least, most) == (1, 1):
        return part
    return PatternPart("repetition", parts=(part,), least=least, most=most, greedy=element.args["greedy"])


def _may_be_empty(part: PatternPart) -> bool:
    if part.kind == "repetition" and part.least == 0:
        return True
    if part.kind == "alternation":
        return any(map(_may_be_empty, part.parts))
    return bool(part.parts) and all(map(_may_be_empty, part.parts))
