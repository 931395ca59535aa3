"""Storage of schema registries."""

from __future__ import annotations

import dataclasses

import pytest

from harness.session import Session
from headrace.catalog.objects import EntityFormat
from headrace.core.errors import UserError
from headrace.core.names import RelationName
from headrace.core.sqlstate import SqlState
from headrace.formats.avro import Avro


async def test_a_registry_whose_schemas_a_relation_has_stays(session: Session) -> None:
    name = RelationName("shop", "public", "typed")
    known = session.catalog.relation(RelationName("shop", "public", "orders"))
    assert known is not None
    layout = EntityFormat(value=Avro(registry="r"), key=Avro(registry="r"))
    typed = dataclasses.replace(known, name=name, format=layout, id="1")
    session.catalog.create_relation(typed)
    with pytest.raises(UserError) as caught:
        await session.run("DROP SCHEMA_REGISTRY r")
    assert caught.value.state is SqlState.DEPENDENT_OBJECTS_EXIST
    assert caught.value.message == "the schema registry r is referenced by the relation shop.public.typed"
    session.catalog.drop(typed)
    await session.run("DROP SCHEMA_REGISTRY r")
