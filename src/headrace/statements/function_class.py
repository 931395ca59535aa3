"""Kind, methods and repeatability of the class of a function, read from its file. Nothing is loaded or run, since it may be hostile.

Source: The Java Virtual Machine Specification, chapter 4; the classes of functions are those of Flink's Table API (dialect section 7.3).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headrace.catalog.objects import FunctionKind, UserFunction
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.core.wording import counted

_FLINK = "org.apache.flink.table.functions."
_KINDS = {
    f"{_FLINK}ScalarFunction": FunctionKind.SCALAR,
    f"{_FLINK}TableFunction": FunctionKind.TABLE,
    f"{_FLINK}AggregateFunction": FunctionKind.AGGREGATE,
}
_LEVELS_MAX = 50
_VARIADIC = 0x0080
_PUBLIC = 0x0001
_CONSTANT_BYTES = {
    3: 4,
    4: 4,
    5: 8,
    6: 8,
    7: 2,
    8: 2,
    9: 4,
    10: 4,
    11: 4,
    12: 4,
    15: 3,
    16: 2,
    17: 4,
    18: 4,
    19: 2,
    20: 2,
}
"""Bytes of each kind of constant after its tag, but for texts."""
_TEXT, _CLASS, _DOUBLE_SLOTS = 1, 7, (5, 6)
_PARAMETER = re.compile(r"\[*(?:L[^;]+;|[BCDFIJSZ])")
_RETURN_TRUE, _RETURN_FALSE = b"\x04\xac", b"\x03\xac"


@dataclass(frozen=True)
class Method:
    """A public method: how many arguments it takes, whether the last one repeats, and its byte code."""

    name: str
    parameters: tuple[str, ...]
    variadic: bool
    code: bytes

    def takes(self, count: int) -> bool:
        """True if it can be called with so many arguments."""
        return count >= len(self.parameters) - 1 if self.variadic else count == len(self.parameters)


@dataclass(frozen=True)
class _ClassFile:
    superclass: str
    methods: tuple[Method, ...]


@dataclass(frozen=True)
class FunctionClass:
    """The kind of a function and whether equal arguments give equal results."""

    kind: FunctionKind
    repeatable: bool


def function_class(function: UserFunction, read: Callable[[str], bytes | None]) -> FunctionClass:
    """Return what the class of a function is; `read` returns the bytes of a class by its full name, or None.

    Raises UserError 42804 for a class that is not a function, or has no method for the declared parameters.
    """
    lineage: list[_ClassFile] = []
    name = function.class_name
    while name not in _KINDS and (data := read(name)) is not None and len(lineage) < _LEVELS_MAX:
        lineage.append(_parsed(data, name))
        name = lineage[-1].superclass
    kind = _KINDS.get(name)
    if kind is None:
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            f"the class {function.class_name} is not a function: it extends {name}",
            hint=f"Extend ScalarFunction, TableFunction or AggregateFunction of {_FLINK[:-1]}.",
        )
    methods = [method for each in lineage for method in each.methods]
    _check_method(function, kind, methods)
    declared = next((method.code for method in methods if method.name == "isDeterministic"), _RETURN_TRUE)
    return FunctionClass(kind, declared == _RETURN_TRUE)


def _check_method(function: UserFunction, kind: FunctionKind, methods: list[Method]) -> None:
    """Raise UserError 42804 if no method takes as many arguments as are declared; their types are checked when the class is loaded."""
    word, leading = ("accumulate", 1) if kind is FunctionKind.AGGREGATE else ("eval", 0)
    named = [method for method in methods if method.name == word]
    count = len(function.parameters)
    if kind is FunctionKind.AGGREGATE and not count:
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            "an aggregate function requires at least one parameter",
            hint="Pass a constant.",
        )
    if any(method.takes(count + leading) for method in named):
        return
    known = "; ".join(f"{word}({', '.join(method.parameters)})" for method in named)
    raise UserError(
        SqlState.DATATYPE_MISMATCH,
        f"the class {function.class_name} has no public method {word} for {counted(count, 'argument')}",
        hint=f"It has {known}." if known else f"Add a public method {word} to it.",
    )


def _parsed(data: bytes, name: str) -> _ClassFile:
    try:
        return _Reader(data).whole()
    except (IndexError, KeyError, ValueError, struct.error) as error:
        raise UserError(
            SqlState.DATA_EXCEPTION, f"the class {name} cannot be read: {error}", hint="Compile it again."
        ) from None


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 8

    def whole(self) -> _ClassFile:
        constants = self._constants()
        self._bytes(4)
        superclass = self._u2()
        interfaces = self._u2()
        self._bytes(2 * interfaces)
        for _ in range(self._u2()):
            self._bytes(6)
            for _ in self._attributes(constants):
                pass
        methods = tuple(method for method in self._methods(constants) if method is not None)
        name = str(constants[int(constants[superclass])]) if superclass else "nothing"
        return _ClassFile(name.replace("/", "."), methods)

    def _constants(self) -> dict[int, str | int]:
        """Return the texts, and for classes the number of the text with their name."""
        constants: dict[int, str | int] = {}
        index, count = 1, self._u2()
        while index < count:
            tag = self._bytes(1)[0]
            if tag == _TEXT:
                constants[index] = self._bytes(self._u2()).decode("utf-8", "replace")
            else:
                content = self._bytes(_CONSTANT_BYTES[tag])
                if tag == _CLASS:
                    constants[index] = int.from_bytes(content)
            index += 2 if tag in _DOUBLE_SLOTS else 1
        return constants

    def _methods(self, constants: dict[int, str | int]) -> Iterator[Method | None]:
        for _ in range(self._u2()):
            flags, name, descriptor = self._u2(), str(constants[self._u2()]), str(constants[self._u2()])
            code = b""
            for attribute, content in self._attributes(constants):
                if attribute == "Code":
                    code = content[8 : 8 + int.from_bytes(content[4:8])]
            parameters = tuple(
                _shown(part) for part in _PARAMETER.findall(descriptor[1 : descriptor.index(")")])
            )
            yield Method(name, parameters, bool(flags & _VARIADIC), code) if flags & _PUBLIC else None

    def _attributes(self, constants: dict[int, str | int]) -> Iterator[tuple[str, bytes]]:
        for _ in range(self._u2()):
            name = str(constants[self._u2()])
            yield name, self._bytes(int.from_bytes(self._bytes(4)))

    def _u2(self) -> int:
        return int.from_bytes(self._bytes(2))

    def _bytes(self, count: int) -> bytes:
        content = self._data[self._position : self._position + count]
        if len(content) < count:
            raise ValueError("it ends too early")
        self._position += count
        return content


_PRIMITIVES = {
    "B": "byte",
    "C": "char",
    "D": "double",
    "F": "float",
    "I": "int",
    "J": "long",
    "S": "short",
    "Z": "boolean",
}


def _shown(descriptor: str) -> str:
    """Return a type as Java source has it, without its package."""
    element = descriptor.lstrip("[")
    name = _PRIMITIVES.get(element) or element[1:-1].rpartition("/")[2].replace("$", ".")
    return name + "[]" * (len(descriptor) - len(element))
