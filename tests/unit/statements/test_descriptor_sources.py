"""Descriptor sources: uploads, and their descriptions."""

from __future__ import annotations

import pytest

from harness.session import ADMINISTRATOR, SHOP_DESCRIPTORS, Session
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState


async def create(session: Session, text: str, data: bytes = SHOP_DESCRIPTORS) -> None:
    statement = f"CREATE DESCRIPTOR_SOURCE {text}"
    files = {"shop.desc": data}
    await session.service.execute(statement, principal=ADMINISTRATOR, context=session.context, files=files)


async def refused(session: Session, text: str, data: bytes = SHOP_DESCRIPTORS) -> UserError:
    with pytest.raises(UserError) as caught:
        await create(session, text, data)
    return caught.value


@pytest.mark.parametrize(
    "clause", ["WITH ('file' = '@/x/shop.desc')", "WITH ('file' = 'shop.desc')", "FROM '@shop.desc'"]
)
async def test_a_source_is_made_of_an_uploaded_file(session: Session, clause: str) -> None:
    await create(session, f'"Shop" {clause}')
    assert await session.rows("LIST DESCRIPTORS WHERE source = 'Shop'", "Name") == [
        ('"Shop".m.Money',),
        ('"Shop".shop.Order',),
        ('"Shop".shop.Order.Item',),
        ('"Shop".shop.Other',),
    ]
    again = await refused(session, f'"Shop" {clause}')
    assert again.state is SqlState.DUPLICATE_DESCRIPTOR
    await create(session, f'IF NOT EXISTS "Shop" {clause}', b"nothing is read")
    await session.run('DROP DESCRIPTOR_SOURCE "Shop"')
    assert await session.rows("LIST DESCRIPTOR_SOURCES", "Name", "Type") == [("p", "Protobuf")]


async def test_a_source_says_what_is_in_it(session: Session) -> None:
    await create(session, "s WITH ('file' = 'shop.desc', 'description' = 'what is sold')")
    described = dict(await session.rows("DESCRIBE DESCRIPTOR_SOURCE s"))
    assert described["messages"] == "m.Money, shop.Order, shop.Order.Item, shop.Other"
    assert (described["description"], described["owner"]) == ("what is sold", "sysadmin")


async def test_what_is_no_descriptor_source_is_refused_where_it_stands(session: Session) -> None:
    text = await refused(session, "s WITH ('file' = 'shop.desc')", b'syntax = "proto3";')
    assert (text.state, "protoc" in (text.hint or "")) == (SqlState.DATA_EXCEPTION, True)
    assert text.span is not None
    assert (await refused(session, "s WITH ('file' = 'other.desc')")).state is SqlState.INVALID_PARAMETER
    assert (await refused(session, "s WITH ('description' = 'd')")).state is SqlState.MISSING_PARAMETER
    for statement in ("DESCRIBE", "DROP"):
        with pytest.raises(UserError) as caught:
            await session.run(f"{statement} DESCRIPTOR_SOURCE q")
        assert caught.value.state is SqlState.DESCRIPTOR_SOURCE_NOT_FOUND
    await session.run("USE ROLE public")
    with pytest.raises(UserError) as caught:
        await session.run("CREATE DESCRIPTOR_SOURCE q FROM '@x'")
    assert caught.value.state is SqlState.INSUFFICIENT_PRIVILEGE
    for statement in ("DESCRIBE", "DROP"):
        with pytest.raises(UserError) as caught:
            await session.run(f"{statement} DESCRIPTOR_SOURCE p")
        assert caught.value.state is SqlState.DESCRIPTOR_SOURCE_NOT_FOUND
