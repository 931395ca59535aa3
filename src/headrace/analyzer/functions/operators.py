"""Operators and predicates, as rows like any function. Their names are the dialect's symbols and words."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.analyzer.functions.json import JSON_PREDICATES
from headrace.analyzer.functions.signature import (
    SAME,
    Function,
    OperandRule,
    PerType,
    ResultRule,
    Spelling,
    Template,
    by_text_if_long,
    function,
)
from headrace.analyzer.typing import (
    arithmetic,
    as_decimal,
    comparable,
    compared,
    exact,
    has_approximate,
    is_temporal,
    is_text,
    operands,
)
from headrace.core.types import (
    BOOLEAN,
    BYTES,
    INTEGRAL,
    VARCHAR,
    Array,
    DataType,
    Decimal,
    Map,
    is_primitive,
)


def _arithmetic(operator: str) -> ResultRule:
    return lambda kinds: arithmetic(operator, kinds[0], kinds[1])


def _comparison(kinds: Sequence[DataType]) -> DataType | None:
    return BOOLEAN if comparable(kinds[0], kinds[1]) else None


def _concatenation(kinds: Sequence[DataType]) -> DataType | None:
    if all(isinstance(kind, Array) for kind in kinds):
        return kinds[0] if kinds[0] == kinds[1] else None
    if BYTES in kinds:
        return BYTES if set(kinds) == {BYTES} else None
    return VARCHAR if all(map(is_primitive, kinds)) and any(map(is_text, kinds)) else None


def _element(kinds: Sequence[DataType]) -> DataType | None:
    collection, key = kinds
    if isinstance(collection, Array):
        return collection.element if key in INTEGRAL else None
    if isinstance(collection, Map):
        return collection.value if comparable(collection.key, key) else None
    return None


def _negated(kinds: Sequence[DataType]) -> DataType | None:
    return None if is_temporal(kinds[0]) else kinds[0]


def _in(arguments: Sequence[str]) -> str:
    return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"


def _like(arguments: Sequence[str]) -> str:
    if len(arguments) == 2:
        return f"({arguments[0]} LIKE {arguments[1]})"
    return f"({arguments[0]} LIKE like_pattern({arguments[1]}, {arguments[2]}) ESCAPE {arguments[2]})"


def _spark_like(arguments: Sequence[str]) -> str:
    """Return Spark's LIKE. Its default escape character is the backslash, the dialect has none: a pattern's backslashes are doubled."""
    text, pattern = arguments[:2]
    if len(arguments) == 3:
        return f"({text} LIKE {pattern} ESCAPE {arguments[2]})"
    if pattern.startswith("'"):
        doubled = pattern.replace("\\\\", "\\\\\\\\")
        return f"({text} LIKE {doubled})"
    return f"({text} LIKE replace({pattern}, '\\\\', '\\\\\\\\'))"


def _similar(template: str) -> Template:
    return lambda arguments: template.format(*[*arguments, "''"][:3])


_DUCKDB_SHORT = 18
"""A result of two DECIMALs of so many digits has no more in DuckDB: one of them must have more."""


def duckdb_arithmetic(operator: str) -> Template:
    """Return a template for DuckDB, which divides as DOUBLE, by zero too, and limits sums and products to 38 digits."""

    def choose(kinds: Sequence[DataType], result: DataType) -> Spelling:
        plain = f"({{0}} {operator} {{1}})"
        if has_approximate(kinds) and operator in "/%":
            return f"CAST(double_arithmetic('{operator}', {{0}}, {{1}}) AS {{type}})"
        met = "+" if operator == "%" else operator
        if not isinstance(result, Decimal) or (operator != "/" and exact(met, kinds)):
            short = [isinstance(kind, Decimal) and kind.precision <= _DUCKDB_SHORT for kind in kinds]
            if isinstance(result, Decimal) and result.precision > _DUCKDB_SHORT and all(short):
                scale = as_decimal(kinds[0]).scale
                return plain.replace("{0}", f"CAST({{0}} AS DECIMAL({_DUCKDB_SHORT + 1}, {scale}))")
            return plain
        texts = "CAST({0} AS VARCHAR), CAST({1} AS VARCHAR)"
        return (
            f"CAST(decimal_arithmetic('{operator}', {texts}, {result.precision}, {result.scale}) AS {{type}})"
        )

    return PerType(choose)


def _binary(
    symbol: str,
    rule: ResultRule,
    doc: str,
    *,
    signature: str = "any, any",
    duckdb: Template = SAME,
    operand_rule: OperandRule = compared,
) -> Function:
    spark = f"({{0}} {symbol} {{1}})"
    return function(
        symbol, signature, rule, doc, spark=spark, duckdb=duckdb, infix=symbol, operands=operand_rule
    )


def _calculation(symbol: str, doc: str, *, signature: str = "any, any") -> Function:
    rule, duckdb = _arithmetic(symbol), duckdb_arithmetic(symbol)
    return _binary(symbol, rule, doc, signature=signature, duckdb=duckdb, operand_rule=operands)


_WITH_INTERVAL = "any or interval, any or interval"

OPERATORS: tuple[Function, ...] = (
    _calculation("+", "Sum; or a time plus an INTERVAL.", signature=_WITH_INTERVAL),
    _calculation("-", "Difference; or a time minus an INTERVAL.", signature=_WITH_INTERVAL),
    _calculation("*", "Product."),
    _calculation("/", "Quotient of numbers with a fraction."),
    function(
        "DIV",
        "integer, integer",
        _arithmetic("/"),
        "Quotient of whole numbers, cut towards zero.",
        spark="CAST({0} div {1} AS {type})",
        duckdb="CAST({0} // {1} AS {type})",
        infix="/",
        operands=operands,
    ),
    _calculation("%", "Remainder; its sign is the dividend's."),
    function(
        "NEGATE",
        "number",
        _negated,
        "The number with its sign changed.",
        spark=by_text_if_long("(- {0})", "replace(concat('-', {0}), '--', '')"),
        duckdb="(- {0})",
    ),
    _binary("=", _comparison, "Equal; NULL when either is NULL."),
    _binary("<>", _comparison, "Not equal; NULL when either is NULL."),
    _binary("<", _comparison, "Less than."),
    _binary("<=", _comparison, "Less than or equal."),
    _binary(">", _comparison, "Greater than."),
    _binary(">=", _comparison, "Greater than or equal."),
    function(
        "IS NOT DISTINCT FROM",
        "any, any",
        _comparison,
        "Equal; two NULLs are equal.",
        spark="({0} <=> {1})",
        duckdb="({0} IS NOT DISTINCT FROM {1})",
        never_null=True,
        infix="IS NOT DISTINCT FROM",
        operands=compared,
    ),
    function(
        "IS DISTINCT FROM",
        "any, any",
        _comparison,
        "Not equal; two NULLs are equal.",
        spark="(NOT ({0} <=> {1}))",
        duckdb="({0} IS DISTINCT FROM {1})",
        never_null=True,
        infix="IS DISTINCT FROM",
        operands=compared,
    ),
    function(
        "AND", "boolean, boolean", BOOLEAN, "Both are true.", spark="({0} AND {1})", duckdb=SAME, infix="AND"
    ),
    function(
        "OR", "boolean, boolean", BOOLEAN, "One is true.", spark="({0} OR {1})", duckdb=SAME, infix="OR"
    ),
    function("NOT", "boolean", BOOLEAN, "The opposite.", spark="(NOT {0})", duckdb=SAME),
    function("IS NULL", "any", BOOLEAN, "Has no value.", spark="({0} IS NULL)", duckdb=SAME, never_null=True),
    function(
        "IS TRUE",
        "boolean",
        BOOLEAN,
        "Is true, not NULL.",
        spark="({0} IS TRUE)",
        duckdb=SAME,
        never_null=True,
    ),
    function(
        "IS FALSE",
        "boolean",
        BOOLEAN,
        "Is false, not NULL.",
        spark="({0} IS FALSE)",
        duckdb=SAME,
        never_null=True,
    ),
    *JSON_PREDICATES,
    function(
        "BETWEEN",
        "ordered, ordered, ordered",
        BOOLEAN,
        "Within the two bounds, both included.",
        spark="({0} BETWEEN {1} AND {2})",
        duckdb=SAME,
        operands=compared,
    ),
    function(
        "IN",
        "any, any, ...",
        BOOLEAN,
        "Equal to an element of the list.",
        spark=_in,
        duckdb=SAME,
        operands=compared,
    ),
    function(
        "LIKE",
        "text, text, [text]",
        BOOLEAN,
        "Matches a pattern of % and _; the third text is the escape character.",
        spark=_spark_like,
        duckdb=_like,
        constant_from=2,
    ),
    function(
        "SIMILAR TO",
        "text, text, [text]",
        BOOLEAN,
        "Matches a pattern of %, _, |, *, +, ?, {m,n}, ( ) and [ ]; the third text is the escape character.",
        spark=_similar("({0} RLIKE headrace_similar({1}, {2}))"),
        duckdb=_similar("regexp_matches({0}, similar_pattern({1}, {2}))"),
        constant_from=2,
    ),
    function(
        "RLIKE",
        "text, text",
        BOOLEAN,
        "True if a part matches the regular expression.",
        spark="({0} RLIKE {1})",
        duckdb="regexp_matches({0}, {1})",
    ),
    function(
        "||",
        "any, any",
        _concatenation,
        "Concatenation of texts; other types are converted to text.",
        spark="({0} || {1})",
        duckdb=SAME,
        infix="||",
    ),
    function(
        "ELEMENT_AT",
        "array or map, any",
        _element,
        "The array's element at a 1-based position, or the map's value; NULL if absent.",
        spark="try_element_at({0}, {1})",
        duckdb=None,
    ),
)


def is_division_of_integers(kinds: Sequence[DataType]) -> bool:
    """True when `/` must truncate."""
    return all(kind in INTEGRAL for kind in kinds) and not any(isinstance(kind, Decimal) for kind in kinds)
