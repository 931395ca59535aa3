"""Descriptor sources."""

from __future__ import annotations

import base64

from headrace.catalog.kinds.spec import KindSpec, Stored
from headrace.catalog.objects import DescriptorSource
from headrace.core.sqlstate import SqlState


def _read(stored: Stored) -> DescriptorSource:
    return DescriptorSource(
        name=stored.name,
        owner=stored.owner,
        created_at=stored.created_at,
        updated_at=stored.updated_at,
        descriptors=base64.b64decode(stored.definition["descriptors"]),
        description=stored.definition["description"],
        id=stored.id,
    )


DESCRIPTOR_SOURCE = KindSpec(
    kind="descriptor_source",
    value=DescriptorSource,
    path=lambda source: (source.name,),
    write=lambda source: {
        "descriptors": base64.b64encode(source.descriptors).decode(),
        "description": source.description,
    },
    read=_read,
    duplicate=SqlState.DUPLICATE_DESCRIPTOR,
    missing=SqlState.DESCRIPTOR_SOURCE_NOT_FOUND,
)
