"""A user's function as a query was planned with it: the function of the catalog, and the digest of its code."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property

from headrace.catalog.objects import FunctionKind, UserFunction
from headrace.core.types import Array, DataType, Struct


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
