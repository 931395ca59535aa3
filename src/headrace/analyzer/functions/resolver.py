"""Functions of users as functions that a query may use: the overloads of a name come from the catalog, through an expression's scope."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from headrace.analyzer.functions.signature import Function, ParameterKind
from headrace.catalog.objects import FunctionKind, UserFunction
from headrace.core.types import Array, DataType, Struct


@dataclass(frozen=True)
class _Always:
    """The rule of a result that has one type. Compared by value, as calls are."""

    type: DataType

    def __call__(self, _arguments: Sequence[DataType]) -> DataType:
        return self.type


@dataclass(frozen=True)
class Implementation:
    """A user's function, with the SHA-256 of its code: what a query was planned with."""

    function: UserFunction
    digest: str

    @cached_property
    def id(self) -> str:
        """The name of the function in a plan: it changes with all that decides about results."""
        function = self.function
        parts = [
            self.digest,
            function.vectorized,
            function.class_name,
            function.kind.value,
            str(function.returns),
            list(function.egress),
        ]
        text = json.dumps([*parts, *(str(kind) for _, kind in function.parameters)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def result(self) -> DataType:
        """The type of a call: of a table function an ARRAY of its rows, which are values if they have one column."""
        returns = self.function.returns
        if self.function.kind is not FunctionKind.TABLE:
            return returns
        kinds = [kind for _, kind in self.columns]
        return Array(returns if len(kinds) > 1 else kinds[0])

    @property
    def columns(self) -> tuple[tuple[str, DataType], ...]:
        """The columns of a table function; the name of the only one may be Flink's."""
        returns = self.function.returns
        return returns.fields if isinstance(returns, Struct) else (("f0", returns),)

    @property
    def arguments(self) -> tuple[DataType, ...]:
        """The types that a call passes: of an aggregate one ARRAY with the parameters of each row."""
        kinds = tuple(kind for _, kind in self.function.parameters)
        if self.function.kind is not FunctionKind.AGGREGATE:
            return kinds
        return (Array(Struct(tuple((f"f{index}", kind) for index, kind in enumerate(kinds)))),)

    @property
    def callable(self) -> Function:
        """The function as a row of the catalogue: both engines call it by its id."""
        return Function(
            name=self.function.name,
            parameters=(ParameterKind.ANY,) * max(len(self.arguments), 1),
            required=len(self.arguments),
            variadic=False,
            result=_Always(self.result),
            doc="A function of a user.",
            spark=f"headrace_call('{self.id}'"
            + "".join(f", {{{index}}}" for index in range(len(self.arguments)))
            + ")",
            duckdb=f"headrace_call_{self.id}({{*}})" if self.arguments else f"headrace_call_{self.id}(0)",
            deterministic=self.function.repeatable,
            user=self,
        )


Overloads = Callable[[str], Sequence[Implementation]]
"""Returns the functions of a name that the role may know of."""


def no_overloads(_name: str) -> Sequence[Implementation]:
    """Return the functions of users where there are none."""
    return ()
