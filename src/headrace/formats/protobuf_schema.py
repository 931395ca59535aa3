"""Protobuf's descriptors as columns, and columns as a `.proto` file. Source: dialect section 16 and Protobuf's encoding.

    BOOLEAN bool · TINYINT, SMALLINT, INTEGER int32 · BIGINT int64 · FLOAT float · DOUBLE double · VARCHAR string · BYTES bytes ·
    TIMESTAMP and TIMESTAMP_LTZ google.protobuf.Timestamp · DECIMAL and DATE their text, as string · ARRAY repeated · MAP map ·
    STRUCT message

The way back has more to read: every kind of 32-bit number is an INTEGER and of 64 bits a BIGINT, an enum is a VARCHAR, a wrapper
(google.protobuf.Int64Value …) the type that it wraps.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache

from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from headrace.core.errors import UserError
from headrace.core.names import Identifier
from headrace.core.schema import Column
from headrace.core.sqlstate import SqlState
from headrace.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    SMALLINT,
    TINYINT,
    VARCHAR,
    Array,
    DataType,
    Decimal,
    Map,
    Struct,
    Timestamp,
    Varchar,
    parse_type,
)
from headrace.core.wording import with_article
from headrace.formats.protobuf_text import malformed, parse_proto

FIELDS_MAX = 10_000
"""Of one message, each counted as often as it occurs."""
_MAIN = "schema.proto"
_TIMESTAMP = "google.protobuf.Timestamp"
_KNOWN_FILES = {
    module.DESCRIPTOR.name: FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    for module in (
        any_pb2,
        api_pb2,
        descriptor_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        source_context_pb2,
        struct_pb2,
        timestamp_pb2,
        type_pb2,
        wrappers_pb2,
    )
}
"""Files that every compiler of Protobuf brings along."""
_REGISTRY_FILES = {
    name: parse_proto(text, name)
    for name, text in (
        (
            "confluent/meta.proto",
            'syntax = "proto3"; package confluent; '
            "message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }",
        ),
        (
            "confluent/type/decimal.proto",
            'syntax = "proto3"; package confluent.type; message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }',
        ),
    )
}
"""Files that Confluent's registry brings along, which schemas import without a reference; without their extensions of options."""
_INTEGERS = {
    **dict.fromkeys(("int32", "sint32", "sfixed32", "uint32", "fixed32"), INTEGER),
    **dict.fromkeys(("int64", "sint64", "sfixed64", "uint64", "fixed64"), BIGINT),
}
_READ: dict[str, DataType] = {
    "bool": BOOLEAN,
    **_INTEGERS,
    "float": FLOAT,
    "double": DOUBLE,
    "string": VARCHAR,
    "enum": VARCHAR,
    "bytes": BYTES,
}
_WRITTEN: dict[DataType, str] = {
    BOOLEAN: "bool",
    TINYINT: "int32",
    SMALLINT: "int32",
    INTEGER: "int32",
    BIGINT: "int64",
    FLOAT: "float",
    DOUBLE: "double",
    BYTES: "bytes",
    DATE: "string",
}
_HOLDING: dict[DataType, frozenset[str]] = {
    BOOLEAN: frozenset({"bool"}),
    **dict.fromkeys(
        (TINYINT, SMALLINT, INTEGER), frozenset(n for n, kind in _INTEGERS.items() if kind == INTEGER)
    ),
    BIGINT: frozenset(_INTEGERS),
    FLOAT: frozenset({"float"}),
    DOUBLE: frozenset({"double", "float"}),
    BYTES: frozenset({"bytes"}),
    DATE: frozenset({"string"}),
}
_TYPE_NAMES = {
    getattr(FieldDescriptor, name): name.removeprefix("TYPE_").lower()
    for name in dir(FieldDescriptor)
    if name.startswith("TYPE_")
}
_MAP_KEYS = (VARCHAR, BOOLEAN, TINYINT, SMALLINT, INTEGER, BIGINT)
_OF_PROTOBUF = (19_000, 20_000)
"""Numbers that Protobuf keeps for itself."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DECLARE = "Declare the columns that you need, with supported types: (name TYPE, …)."


class Descriptors:
    """Files of messages that are linked. `main`: the file whose messages are meant where none is named."""

    def __init__(self, files: Iterable[FileDescriptorProto], main: str | None = None) -> None:
        given = {file.name: file for file in files}
        self._files = {**_REGISTRY_FILES, **given, **_KNOWN_FILES}
        self._own = [name for name in given if name not in _KNOWN_FILES]
        self._main = main
        self._pool = DescriptorPool()
        self._linked: list[str] = []
        for name in self._own:
            self._link(name, ())

    @cached_property
    def messages(self) -> tuple[str, ...]:
        """Full names of the messages; nested messages follow the message that contains them."""

        def within(prefix: str, messages: Iterable[DescriptorProto]) -> Iterator[str]:
            for message in messages:
                if not message.options.map_entry:
                    name = f"{prefix}{message.name}"
                    yield name
                    yield from within(f"{name}.", message.nested_type)

        own = [self._files[name] for name in ([self._main] if self._main else self._own)]
        packages = ((f"{file.package}." if file.package else "", file) for file in own)
        return tuple(name for prefix, file in packages for name in within(prefix, file.message_type))

    def named(self, name: str | None) -> str:
        """Return the full name of the message called so, the package of which may be left out; None: the first. Raises UserError 3D010."""
        matching = [item for item in self.messages if name in (None, item) or item.endswith(f".{name}")]
        exact = [item for item in matching if item == name]
        if exact or (matching and (name is None or len(matching) == 1)):
            return (exact or matching)[0]
        what = (
            "no message"
            if not self.messages
            else f"no message {name!r}"
            if not matching
            else f"several messages {name!r}"
        )
        raise UserError(
            SqlState.DESCRIPTOR_NOT_FOUND,
            f"the Protobuf schema contains {what}",
            hint=f"The messages are {', '.join(matching or self.messages)}." if self.messages else None,
        )

    def columns(self, message: str) -> tuple[Column, ...]:
        """Return the columns of a message's fields. A `required` one is NOT NULL. Raises UserError 0A000 for a field without a data
        type, 53000 for too many."""
        reader = _Reader()
        fields = reader.fields(self.message(message), ())
        return tuple(
            Column(Identifier(name).name, parse_type(str(kind)), not required)
            for name, kind, required in fields
        )

    def misfit(self, message: str, columns: Struct) -> str | None:
        """Return why the columns are not the message's fields, as the end of a sentence; None if they are."""
        return _misfit(self.message(message), columns, "")

    def without(self, message: str, columns: Struct) -> list[str]:
        """Return the required fields of a message for which there is no column."""
        given = {name for name, _ in columns.fields}
        return [
            field.name
            for field in self.message(message).fields
            if field.is_required and field.name not in given
        ]

    def encoded(self, message: str) -> str:
        """Return the file of a message and what it needs, each behind what it needs itself: a FileDescriptorSet in base64."""
        needed: set[str] = set()

        def need(name: str) -> None:
            if name not in needed:
                needed.add(name)
                for other in self._files[name].dependency:
                    need(other)

        need(self.message(message).file.name)
        chosen = FileDescriptorSet(file=[self._files[name] for name in self._linked if name in needed])
        return base64.b64encode(chosen.SerializeToString(deterministic=True)).decode()

    def indexes(self, message: str) -> tuple[int, ...]:
        """Return the index of a message in its file, and those of messages nested in it.

        The entries of maps are not counted, as Confluent's serializer for Java does not, which parses the text.
        """
        file = self._files[self.message(message).file.name]
        place: list[int] = []
        siblings: Sequence[DescriptorProto] = file.message_type
        for part in message.removeprefix(f"{file.package}." if file.package else "").split("."):
            messages = [item for item in siblings if not item.options.map_entry]
            place.append([item.name for item in messages].index(part))
            siblings = messages[place[-1]].nested_type
        return tuple(place)

    def message(self, name: str) -> Descriptor:
        """Return the message of that full name, one of `messages`."""
        return self._pool.FindMessageTypeByName(name)

    def _link(self, name: str, within: tuple[str, ...]) -> None:
        if name in self._linked:
            return
        if name in within:
            raise malformed(f"the file {name} imports itself")
        file = self._files.get(name)
        if file is None:
            raise UserError(
                SqlState.DESCRIPTOR_NOT_FOUND,
                f"the file {name}, which {within[-1]} imports, is missing",
                hint="Compile with protoc --include_imports, or refer to its subject in the registry.",
            )
        for other in file.dependency:
            self._link(other, (*within, name))
        try:
            self._pool.AddSerializedFile(file.SerializeToString())
        except TypeError as error:
            raise malformed(
                str(error).removeprefix("Couldn't build proto file into descriptor pool: ")
            ) from None
        self._linked.append(name)


def of_set(data: bytes) -> Descriptors:
    """Parse the output of `protoc --descriptor_set_out`. Raises UserError 22000 for other bytes, 3D010 for a file with missing imports."""
    try:
        files = list(FileDescriptorSet.FromString(data).file)
    except DecodeError:
        files = []
    if not files or not all(file.name for file in files):
        raise UserError(
            SqlState.DATA_EXCEPTION,
            "expected compiled descriptors of Protobuf, found other bytes",
            hint="Create it with protoc --include_imports --descriptor_set_out=x.desc x.proto.",
        )
    for file in files:
        file.ClearField("source_code_info")
    return Descriptors(files)


def of_text(text: str, references: Sequence[tuple[str, str]] = ()) -> Descriptors:
    """Return the `.proto` file `text`, with those that it imports by their names. Raises as `parse_proto` and `Descriptors`."""
    others = [parse_proto(other, name) for name, other in references if name not in _KNOWN_FILES]
    return Descriptors([*others, parse_proto(text, _MAIN)], _MAIN)


@lru_cache(maxsize=256)
def decoded(encoded: str) -> Descriptors:
    """Return the inverse of `Descriptors.encoded`."""
    return of_set(base64.b64decode(encoded))


def proto_text(columns: Sequence[Column], name: str, *, before: Descriptors | None = None) -> str:
    """Return the file of a message with these columns; a dot in its `name` ends its package.

    What is in the message of that name `before` keeps its number there. Raises UserError 42P16 or 0A000 for what Protobuf cannot say.
    """
    package, _, plain = name.rpartition(".")
    known = before.message(name) if before is not None else None
    fields = [(column.name, column.type, column.nullable) for column in columns]
    body = "\n".join(_message_text(plain, fields, known))
    head = ['syntax = "proto3";']
    if package:
        head.append(f"package {package};")
    if _TIMESTAMP in body:
        head.append('import "google/protobuf/timestamp.proto";')
    return "\n".join([*head, body, ""])


def message_name(text: str) -> str:
    """Return a text as the name of a message."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", text)
    return plain if _NAME.fullmatch(plain) else f"_{plain}"


def wrapped(message: Descriptor) -> FieldDescriptor | None:
    """Return the field of a wrapper, such as google.protobuf.Int64Value; None for other messages."""
    is_one = message.file.name == wrappers_pb2.DESCRIPTOR.name
    return message.fields_by_name["value"] if is_one else None


class _Reader:
    """Messages as columns."""

    def __init__(self) -> None:
        self._count = 0

    def fields(self, message: Descriptor, within: tuple[str, ...]) -> list[tuple[str, DataType, bool]]:
        """Return name, type and whether it must be there."""
        if message.full_name in within:
            raise _unsupported(f"the message {message.full_name} contains itself")
        if not message.fields:
            raise _unsupported(f"the message {message.full_name} has no fields")
        fields = []
        for field in message.fields:
            self._count += 1
            if self._count > FIELDS_MAX:
                raise UserError(
                    SqlState.CONFIGURATION_LIMIT_EXCEEDED,
                    f"expected a Protobuf message of at most {FIELDS_MAX} fields, found more",
                )
            fields.append((field.name, self._of(field, (*within, message.full_name)), field.is_required))
        return fields

    def _of(self, field: FieldDescriptor, within: tuple[str, ...]) -> DataType:
        if _is_map(field):
            key, value = _entry(field)
            return Map(self._single(key, within), self._single(value, within))
        kind = self._single(field, within)
        return Array(kind) if field.is_repeated else kind

    def _single(self, field: FieldDescriptor, within: tuple[str, ...]) -> DataType:
        message = field.message_type
        if message is None:
            return _READ[_kind(field)]
        if message.full_name == _TIMESTAMP:
            return Timestamp()
        inner = wrapped(message)
        if inner is not None:
            return _READ[_kind(inner)]
        return Struct(tuple((name, kind) for name, kind, _ in self.fields(message, within)))


def _misfit(message: Descriptor, columns: Struct, path: str) -> str | None:
    for name, kind in columns.fields:
        field = message.fields_by_name.get(name)
        if field is None:
            return f"has no field {path}{name} in the message {message.full_name}"
        misfit = _field_misfit(field, kind, f"{path}{name}")
        if misfit is not None:
            return misfit
    return None


def _field_misfit(field: FieldDescriptor, kind: DataType, path: str) -> str | None:
    match kind:
        case Map(key, value) if _is_map(field):
            own_key, own_value = _entry(field)
            return _single_misfit(own_key, key, path) or _single_misfit(own_value, value, path)
        case Array(element) if field.is_repeated and not _is_map(field):
            return _single_misfit(field, element, path)
    if field.is_repeated or isinstance(kind, Array | Map):
        return _mismatch(field, kind, path)
    return _single_misfit(field, kind, path)


def _single_misfit(field: FieldDescriptor, kind: DataType, path: str) -> str | None:
    message = field.message_type
    match kind:
        case Struct() if message is not None:
            return _misfit(message, kind, f"{path}.")
        case Timestamp():
            fits = message is not None and message.full_name == _TIMESTAMP
        case _ if message is not None:
            inner = wrapped(message)
            return _mismatch(field, kind, path) if inner is None else _single_misfit(inner, kind, path)
        case Varchar():
            fits = _kind(field) in ("string", "enum")
        case Decimal():
            fits = _kind(field) == "string" or _kind(field) in _INTEGERS
        case _:
            fits = _kind(field) in _HOLDING.get(kind, ())
    return None if fits else _mismatch(field, kind, path)


def _mismatch(field: FieldDescriptor, kind: DataType, path: str) -> str:
    own = "a map" if _is_map(field) else field.message_type.full_name if field.message_type else _kind(field)
    listed = "repeated " if field.is_repeated and not _is_map(field) else ""
    return f"has {listed}{own} in its field {path}, which does not fit {with_article(str(kind))}"


def _message_text(
    name: str, fields: Sequence[tuple[str, DataType, bool]], known: Descriptor | None
) -> list[str]:
    """Return the lines of a message; `known` is what it was before."""
    before = dict(known.fields_by_name) if known is not None else {}
    names = [field for field, _, _ in fields]
    removed = [(field.number, field.number + 1) for field in before.values() if field.name not in names]
    reserved = [*_reserved(known), *removed]
    free = _free_numbers([*reserved, *((field.number, field.number + 1) for field in before.values())])
    names_in_use = {*names, *(f"{_camel(field)}Entry" for field in names)}
    lines: list[str] = []
    inner: list[str] = []
    for field, kind, nullable in fields:
        if not _NAME.fullmatch(field):
            raise UserError(
                SqlState.INVALID_RELATION_DEFINITION,
                "expected the name of a Protobuf field, which consists of letters, digits and _, found "
                f"{field!r}",
                hint="Rename it, with AS in a SELECT.",
            )
        own = before.get(field)
        nested = _camel(field)
        while nested in names_in_use:
            nested += "_"
        written, definition = _field_type(field, kind, nested, own)
        if definition:
            names_in_use.add(nested)
            inner += definition
        single = not isinstance(kind, Array | Map)
        number = own.number if own is not None else next(free)
        lines.append(f"{'optional ' if nullable and single else ''}{written} {field} = {number};")
    if reserved:
        ranges = (
            f"{first} to {end - 1}" if end - first > 1 else str(first) for first, end in sorted(reserved)
        )
        lines.insert(0, f"reserved {', '.join(ranges)};")
    return [f"message {name} {{", *(f"  {line}" for line in (*lines, *inner)), "}"]


def _field_type(
    field: str, kind: DataType, nested: str, own: FieldDescriptor | None
) -> tuple[str, list[str]]:
    """Return a field's type, and the definition of the message `nested` where it is one. `own` is what it was before."""
    match kind:
        case Map(key, value):
            if key not in _MAP_KEYS or isinstance(value, Array | Map):
                raise _unwritable(
                    field,
                    kind,
                    "a key of its maps must be a text, a whole number or a boolean, and a value must not be "
                    "nested",
                )
            entry = _entry(own)[1] if own is not None and _is_map(own) else None
            written, definition = _field_type(field, value, nested, entry)
            return f"map<{_WRITTEN.get(key, 'string')}, {written}>", definition
        case Array(element):
            if isinstance(element, Array | Map):
                raise _unwritable(field, kind, "an element of its lists must not be nested")
            written, definition = _field_type(field, element, nested, own)
            return f"repeated {written}", definition
        case Struct(fields):
            before = own.message_type if own is not None else None
            if before is not None and before.containing_type is not None:
                nested = before.name
            return nested, _message_text(nested, [(name, item, True) for name, item in fields], before)
        case Timestamp():
            return _TIMESTAMP, []
    return _WRITTEN.get(kind, "string"), []


def _reserved(known: Descriptor | None) -> list[tuple[int, int]]:
    if known is None:
        return []
    copy = DescriptorProto()
    known.CopyToProto(copy)
    return [(item.start, item.end) for item in copy.reserved_range]


def _free_numbers(used: Sequence[tuple[int, int]]) -> Iterator[int]:
    used_ranges = sorted([*used, _OF_PROTOBUF])
    number = 1
    while True:
        inside = next((end for first, end in used_ranges if first <= number < end), None)
        if inside is None:
            yield number
        number = inside or number + 1


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _entry(field: FieldDescriptor) -> tuple[FieldDescriptor, FieldDescriptor]:
    if field.message_type is None:
        raise TypeError(f"expected a map, found the field {field.full_name}")
    entry = field.message_type.fields_by_name
    return entry["key"], entry["value"]


def _kind(field: FieldDescriptor) -> str:
    return _TYPE_NAMES[field.type]


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_")) or name


def _unwritable(place: str, kind: DataType, why: str) -> UserError:
    return UserError(
        SqlState.FEATURE_NOT_SUPPORTED,
        f"Protobuf has no type for {place}, {with_article(str(kind))}: {why}",
        hint="Put it into a STRUCT, or leave it out.",
    )


def _unsupported(what: str) -> UserError:
    return UserError(SqlState.FEATURE_NOT_SUPPORTED, f"{what}, which no data type supports", hint=_DECLARE)
