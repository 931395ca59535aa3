"""Functions of users as functions that a query may use: the overloads of a name come from the catalog, through an expression's scope."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.analyzer.functions.implementation import Implementation
from headrace.analyzer.functions.signature import Function, ParameterKind
from headrace.core.types import DataType

Overloads = Callable[[str], Sequence[Implementation]]
"""Returns the functions of a name that the role may know of."""


@dataclass(frozen=True)
class _Always:
    """The rule of a result that has one type. Compared by value, as calls are."""

    type: DataType

    def __call__(self, _arguments: Sequence[DataType]) -> DataType:
        return self.type


def as_function(user: Implementation) -> Function:
    """Return a user's function as a row of the catalogue: both engines call it by its id."""
    count = len(user.arguments)
    arguments = "".join(f", {{{index}}}" for index in range(count))
    return Function(
        name=user.function.name,
        parameters=(ParameterKind.ANY,) * max(count, 1),
        required=count,
        variadic=False,
        result=_Always(user.result),
        doc="A function of a user.",
        spark=f"headrace_call('{user.id}'{arguments})",
        duckdb=f"headrace_call_{user.id}({{*}})" if count else f"headrace_call_{user.id}(0)",
        deterministic=user.function.repeatable,
        user=user,
    )


def no_overloads(_name: str) -> Sequence[Implementation]:
    """Return the functions of users where there are none."""
    return ()
