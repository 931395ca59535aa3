"""A function's identity: its name, and the types of its arguments."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.core.names import Identifier
from headrace.core.types import DataType


@dataclass(frozen=True)
class Signature(Identifier):
    """Name of a function with the `types` of its arguments, which distinguish functions of the same name; None if not specified."""

    types: tuple[DataType, ...] | None = field(default=None, kw_only=True)

    def __str__(self) -> str:
        name = super().__str__()
        return name if self.types is None else f"{name}({', '.join(map(str, self.types))})"
