"""The text of `.proto` files as descriptors. Source: the specifications of Protobuf's language, proto2 and proto3.

Only what says how bytes are laid out is kept: options but `packed` and `allow_alias`, extensions, services and comments are passed
over. Whether names and numbers go together is for who links the files (`protobuf_schema`).
"""

from __future__ import annotations

import re

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.core.types import NESTING_MAX

_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
    | (?P<token> "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' | \.?[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)* | [0-9][\w.]* | [-+{}\[\]()<>=;,:/.] )""",
    re.VERBOSE | re.DOTALL,
)
_NAME = re.compile(r"[A-Za-z_]\w*")
_SCALAR_NAMES = (
    "double",
    "float",
    "bool",
    "string",
    "bytes",
    *(f"{kind}{size}" for kind in ("int", "uint", "sint", "fixed", "sfixed") for size in (32, 64)),
)
_SCALARS = {name: getattr(FieldDescriptorProto, f"TYPE_{name.upper()}") for name in _SCALAR_NAMES}
_LABELS = {
    name: getattr(FieldDescriptorProto, f"LABEL_{name.upper()}")
    for name in ("optional", "required", "repeated")
}
_CLOSING = {"{": "}", "[": "]", "(": ")"}
_NUMBER_END = 2**29
_ENUM_MAX = 2**31 - 1


def parse_proto(text: str, name: str) -> FileDescriptorProto:
    """Parse the `.proto` file `text`, called `name`; types in it are named as they are written.

    Raises UserError 22000 for a text that is no such file, 0A000 for one with editions or groups, 53000 for one nested too deep.
    """
    return _Parser(text, name).file()


def malformed(message: str) -> UserError:
    """Return UserError 22000 for a text that is not a Protobuf schema."""
    return UserError(SqlState.DATA_EXCEPTION, f"the Protobuf schema cannot be read: {message}")


class _Parser:
    def __init__(self, text: str, name: str) -> None:
        self._made = FileDescriptorProto(name=name)
        self._tokens: list[tuple[str, int]] = []
        self._text = text
        self._index = 0
        self._depth = 0
        place = 0
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None:
                raise self._at(place, f"unexpected {text[place]!r}")
            if match["token"]:
                self._tokens.append((match["token"], place))
            place = match.end()

    def file(self) -> FileDescriptorProto:
        file = self._made
        file.syntax = "proto2"
        while self._ahead:
            match self._next():
                case "syntax":
                    self._expect("=")
                    file.syntax = self._string()
                    if file.syntax not in ("proto2", "proto3"):
                        raise self._error("proto2 or proto3")
                    self._expect(";")
                case "edition":
                    raise _unsupported("editions of Protobuf")
                case "package":
                    file.package = self._next()
                    self._expect(";")
                case "import":
                    if self._accept("public"):
                        file.public_dependency.append(len(file.dependency))
                    else:
                        self._accept("weak")
                    file.dependency.append(self._string())
                    self._expect(";")
                case "message":
                    self._message(file.message_type.add())
                case "enum":
                    self._enum(file.enum_type.add())
                case "option" | "extend" | "service":
                    self._skip()
                case ";":
                    pass
                case _:
                    self._index -= 1
                    raise self._error("a definition")
        return file

    def _message(self, message: DescriptorProto) -> None:
        message.name = self._name()
        self._depth += 1
        if self._depth > NESTING_MAX:
            raise UserError(
                SqlState.CONFIGURATION_LIMIT_EXCEEDED,
                f"expected a Protobuf schema of at most {NESTING_MAX} levels, found more",
            )
        self._expect("{")
        while not self._accept("}"):
            match self._ahead:
                case "message":
                    self._index += 1
                    self._message(message.nested_type.add())
                case "enum":
                    self._index += 1
                    self._enum(message.enum_type.add())
                case "oneof":
                    self._index += 1
                    self._oneof(message)
                case "reserved":
                    self._index += 1
                    self._reserved(message, _NUMBER_END)
                case "option" | "extend" | "extensions":
                    self._index += 1
                    self._skip()
                case ";":
                    self._index += 1
                case _:
                    self._field(message)
        # Each proto3 `optional` is a oneof of its own, behind those that were written.
        for field in message.field:
            if field.proto3_optional:
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")
        self._depth -= 1

    def _oneof(self, message: DescriptorProto) -> None:
        index = len(message.oneof_decl)
        message.oneof_decl.add(name=self._name())
        self._expect("{")
        while not self._accept("}"):
            if self._accept("option"):
                self._skip()
            elif not self._accept(";"):
                self._field(message).oneof_index = index

    def _field(self, message: DescriptorProto) -> FieldDescriptorProto:
        declared = message.field.add(label=_LABELS["optional"])
        if self._ahead in _LABELS:
            label = self._next()
            declared.label = _LABELS[label]
            declared.proto3_optional = label == "optional" and self._made.syntax == "proto3"
        kind = self._next()
        if kind == "group":
            raise _unsupported("groups of Protobuf")
        if kind == "map" and self._accept("<"):
            entry = message.nested_type.add()
            entry.options.map_entry = True
            for number, part in enumerate(("key", "value"), start=1):
                field = entry.field.add(name=part, number=number, label=_LABELS["optional"])
                _set_type(field, self._next())
                self._expect("," if part == "key" else ">")
            declared.name = self._name()
            entry.name = _camel(declared.name) + "Entry"
            declared.label, declared.type_name = _LABELS["repeated"], entry.name
        else:
            _set_type(declared, kind)
            declared.name = self._name()
        self._expect("=")
        declared.number = self._number()
        if self._accept("["):
            while not self._accept("]"):
                if self._one() == "packed" and self._accept("="):
                    declared.options.packed = self._next() == "true"
        self._expect(";")
        return declared

    def _enum(self, enum: EnumDescriptorProto) -> None:
        enum.name = self._name()
        self._expect("{")
        while not self._accept("}"):
            if self._accept("option"):
                if self._ahead == "allow_alias":
                    enum.options.allow_alias = True
                self._skip()
            elif self._accept("reserved"):
                self._reserved(enum, _ENUM_MAX)
            elif not self._accept(";"):
                value = enum.value.add(name=self._name())
                self._expect("=")
                value.number = self._number()
                if self._accept("["):
                    while not self._accept("]"):
                        self._one()
                self._expect(";")

    def _reserved(self, descriptor: DescriptorProto | EnumDescriptorProto, largest: int) -> None:
        """Add a reserved range: its last number belongs to it in an enum, but not in a message."""
        beyond = isinstance(descriptor, DescriptorProto)
        while True:
            if self._ahead[:1] in ('"', "'"):
                descriptor.reserved_name.append(self._string())
            else:
                first = last = self._number()
                if self._accept("to"):
                    last = largest - beyond if self._accept("max") else self._number()
                descriptor.reserved_range.add(start=first, end=last + beyond)
            if not self._accept(","):
                break
        self._expect(";")

    def _skip(self) -> None:
        """Step over a statement, to its `;` or the end of its braces."""
        while True:
            token = self._one()
            if token in (";", "{"):
                return

    def _one(self) -> str:
        """Step over one token, with all that it encloses."""
        token = self._next()
        if token in _CLOSING:
            awaited = [_CLOSING[token]]
            while awaited:
                inner = self._next()
                if inner == awaited[-1]:
                    awaited.pop()
                elif inner in _CLOSING:
                    awaited.append(_CLOSING[inner])
        return token

    # -- tokens

    @property
    def _ahead(self) -> str:
        """The next one; empty at the end."""
        return self._tokens[self._index][0] if self._index < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._ahead
        if not token:
            raise self._error("more")
        self._index += 1
        return token

    def _accept(self, token: str) -> bool:
        if self._ahead != token:
            return False
        self._index += 1
        return True

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            raise self._error(repr(token))

    def _name(self) -> str:
        if not _NAME.fullmatch(self._ahead):
            raise self._error("a name")
        return self._next()

    def _string(self) -> str:
        if self._ahead[:1] not in ('"', "'"):
            raise self._error("a text in quotes")
        return self._next()[1:-1]

    def _number(self) -> int:
        sign = -1 if self._accept("-") else 1
        token = self._ahead
        try:
            number = int(token, 8 if token[:1] == "0" and token.isdigit() else 0)
        except ValueError:
            raise self._error("a whole number") from None
        self._index += 1
        if not -(2**31) <= sign * number < 2**31:
            raise malformed(f"the number {number} is too large")
        return sign * number

    def _error(self, expected: str) -> UserError:
        place = self._tokens[self._index][1] if self._index < len(self._tokens) else len(self._text)
        actual = repr(self._ahead[:40]) if self._ahead else "the end"
        return self._at(place, f"expected {expected}, found {actual}")

    def _at(self, place: int, message: str) -> UserError:
        return malformed(f"line {self._text.count(chr(10), 0, place) + 1}: {message}")


def _set_type(field: FieldDescriptorProto, kind: str) -> None:
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    elif not re.match(r"\.?[A-Za-z_]", kind):
        raise malformed(f"expected the type of a field, found {kind!r}")
    else:
        field.type_name = kind


def _camel(name: str) -> str:
    """Return the name of a map's entries, as protoc makes it."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def _unsupported(what: str) -> UserError:
    return UserError(SqlState.FEATURE_NOT_SUPPORTED, f"{what} are not supported yet")
