"""Definition of a row of the function catalogue, and the parser of its signature text.

A signature is a list of parameter kinds: `"text, integer, [integer]"`; brackets make a parameter optional, `...` after the last
one lets it repeat. Templates spell the call in an engine's SQL: in a text `{0}` is the first argument, `{*}` are all of them,
`{type}` is the result type, `{type_text}` that as a text literal;
a function makes the text from the arguments' texts; no template means `name(arguments)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from headrace.analyzer.typing import common, is_temporal, is_text
from headrace.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    INTEGER,
    INTEGRAL,
    INTERVAL,
    NULL,
    VARCHAR,
    Array,
    DataType,
    Decimal,
    Map,
    Struct,
    Timestamp,
    is_numeric,
)

if TYPE_CHECKING:
    from headrace.analyzer.functions.implementation import Implementation

SAME = "same"
"""As a DuckDB template: spelled as in Spark."""

_SCALA_DIGITS = 34

Spelling = str | Callable[[Sequence[str]], str]
ResultRule = Callable[[Sequence[DataType]], DataType | None]
OperandRule = Callable[[Sequence[DataType]], Sequence[DataType]]


@dataclass(frozen=True)
class PerType:
    """A template that depends on the types of the arguments and of the result."""

    choose: Callable[[Sequence[DataType], DataType], Spelling]


Template = Spelling | PerType


def by_text_if_long(plain: str, of_text: str) -> PerType:
    """Return a template that changes the sign of a long DECIMAL as text: Spark rounds it to 34 digits."""

    def choose(kinds: Sequence[DataType], _result: DataType) -> Spelling:
        if not isinstance(kinds[0], Decimal) or kinds[0].precision <= _SCALA_DIGITS:
            return plain
        return f"CAST({of_text.replace('{0}', 'CAST({0} AS STRING)')} AS {{type}})"

    return PerType(choose)


class ParameterKind(Enum):
    """Kind of an argument; the value is the word in signatures and in error texts."""

    ANY = "any"
    NUMBER = "number"
    INTEGER = "integer"
    TEXT = "text"
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"
    TEMPORAL = "temporal"
    EVENT_TIME = "event time"
    BYTES = "bytes"
    BINARY = "text or bytes"
    ARRAY = "array"
    MAP = "map"
    COLLECTION = "array or map"
    ORDERED = "ordered"
    INTERVAL = "interval"
    OPERAND = "any or interval"

    def accepts(self, kind: DataType) -> bool:
        """True when an argument of `kind` may be passed; NULL always may."""
        return kind == NULL or _ACCEPTS[self](kind)


_ACCEPTS: dict[ParameterKind, Callable[[DataType], bool]] = {
    ParameterKind.ANY: lambda kind: kind != INTERVAL,
    ParameterKind.NUMBER: is_numeric,
    ParameterKind.INTEGER: lambda kind: kind in INTEGRAL,
    ParameterKind.TEXT: is_text,
    ParameterKind.BOOLEAN: lambda kind: kind == BOOLEAN,
    ParameterKind.TIMESTAMP: lambda kind: isinstance(kind, Timestamp),
    ParameterKind.TEMPORAL: is_temporal,
    ParameterKind.EVENT_TIME: lambda kind: isinstance(kind, Timestamp) or kind == BIGINT,
    ParameterKind.BYTES: lambda kind: kind == BYTES,
    ParameterKind.BINARY: lambda kind: is_text(kind) or kind == BYTES,
    ParameterKind.ARRAY: lambda kind: isinstance(kind, Array),
    ParameterKind.MAP: lambda kind: isinstance(kind, Map),
    ParameterKind.COLLECTION: lambda kind: isinstance(kind, Array | Map),
    ParameterKind.ORDERED: lambda kind: not isinstance(kind, Array | Map | Struct) and kind != INTERVAL,
    ParameterKind.INTERVAL: lambda kind: kind == INTERVAL,
    ParameterKind.OPERAND: lambda _: True,
}
_KINDS = {kind.value: kind for kind in ParameterKind}


@dataclass(frozen=True)
class Function:
    """Row of the catalogue: a scalar function, an operator or an aggregate.

    `result` gives the type from the arguments' types; None refuses the combination. `never_null` marks results that are not NULL
    whatever the arguments are. `infix` is how an operator is printed between its operands in EXPLAIN. Arguments from the index
    `constant_from` on must be literals. `operands` gives the types at which the arguments are taken, from their own.
    `user` is set for a function of a user.
    """

    name: str
    parameters: tuple[ParameterKind, ...]
    required: int
    variadic: bool
    result: ResultRule
    doc: str
    spark: Template | None = None
    duckdb: Template | None = None
    aggregate: bool = False
    never_null: bool = False
    infix: str | None = None
    deterministic: bool = True
    constant_from: int | None = None
    operands: OperandRule | None = None
    user: Implementation | None = None

    def parameter(self, index: int) -> ParameterKind:
        """Return the kind of the argument at `index`."""
        return self.parameters[min(index, len(self.parameters) - 1)]

    def accepts_count(self, count: int) -> bool:
        """True when the function can be called with `count` arguments."""
        return count >= self.required and (self.variadic or count <= len(self.parameters))

    @property
    def signature(self) -> str:
        """The signature as the reference and error hints print it: `SUBSTRING(text, integer [, integer])`."""
        text = ""
        for index, kind in enumerate(self.parameters):
            separator = ", " if index else ""
            part = kind.value + (", …" if self.variadic and index == len(self.parameters) - 1 else "")
            text += f" [{separator}{part}]" if index >= self.required else separator + part
        return f"{self.name}({text.strip()})"


def function(
    name: str,
    signature: str,
    result: DataType | ResultRule,
    doc: str,
    *,
    spark: Template | None = None,
    duckdb: Template | None = None,
    aggregate: bool = False,
    never_null: bool = False,
    infix: str | None = None,
    deterministic: bool = True,
    constant_from: int | None = None,
    operands: OperandRule | None = None,
) -> Function:
    """Return a row of the catalogue from its signature text. `duckdb=SAME` repeats Spark's spelling; None: not for view queries."""
    parts = [part.strip() for part in signature.split(",") if part.strip()]
    variadic = bool(parts) and parts[-1] == "..."
    if variadic:
        parts.pop()
    kinds = tuple(_KINDS[part.strip("[]")] for part in parts)
    required = sum(1 for part in parts if not part.startswith("["))
    rule: ResultRule = (lambda _: result) if isinstance(result, DataType) else result
    return Function(
        name=name,
        parameters=kinds,
        required=required,
        variadic=variadic,
        result=rule,
        doc=doc,
        spark=spark,
        duckdb=(spark or f"{name.lower()}({{*}})") if duckdb == SAME else duckdb,
        aggregate=aggregate,
        never_null=never_null,
        infix=infix,
        deterministic=deterministic,
        constant_from=constant_from,
        operands=operands,
    )


def text_function(
    name: str, signature: str, doc: str, *, spark: Template | None = None, duckdb: Template | None = SAME
) -> Function:
    """Return a row of a function that returns a text."""
    return function(
        name, signature, VARCHAR, doc, spark=spark, duckdb=duckdb, operands=integer_places(signature)
    )


def integer_places(signature: str) -> OperandRule:
    """Return the rule for places and lengths in a text, which are INTEGERs, as in Spark: a larger BIGINT ends a query."""
    places = {n for n, part in enumerate(signature.split(",")) if n and part.strip(" []") == "integer"}
    return lambda kinds: [INTEGER if n in places and kind == BIGINT else kind for n, kind in enumerate(kinds)]


def alike(kinds: Sequence[DataType]) -> Sequence[DataType]:
    """Return the common type for each argument."""
    kind = common(kinds)
    return kinds if kind is None else [kind] * len(kinds)
