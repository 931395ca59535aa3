"""All formats, as one type."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, TypeAdapter

from headrace.formats.avro import Avro
from headrace.formats.base import Format
from headrace.formats.csv import Csv
from headrace.formats.json import Json
from headrace.formats.primitive import Primitive
from headrace.formats.protobuf import Protobuf
from headrace.formats.raw import Raw

AnyFormat = Annotated[Json | Primitive | Csv | Raw | Avro | Protobuf, Field(discriminator="format")]
"""Any format; its JSON has the discriminator `format`."""

FORMATS: tuple[type[Format], ...] = (Json, Primitive, Csv, Raw, Avro, Protobuf)
VALUE_FORMATS = tuple(kind.model_fields["format"].default for kind in FORMATS)
KEY_FORMATS = tuple(kind.model_fields["format"].default for kind in FORMATS if kind.for_keys)

_ANY: TypeAdapter[AnyFormat] = TypeAdapter(AnyFormat)


def registry_of(layout: Format | None) -> str | None:
    """Return the schema registry that a format's records are read or written by."""
    return layout.registry if isinstance(layout, Avro | Protobuf) else None


def with_registry(layout: AnyFormat, old: str, new: str) -> AnyFormat:
    """Return a format whose registry, if it is `old`, has the name `new`."""
    same = registry_of(layout) == old
    return layout.model_copy(update={"registry": new}) if same else layout


def format_of(data: object) -> AnyFormat:
    """Return the inverse of `model_dump`; raises pydantic.ValidationError."""
    return _ANY.validate_python(data)
