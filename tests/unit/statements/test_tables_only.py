"""Stores with tables only: no streams and changelogs; users who know them from other systems get the reason."""

from __future__ import annotations

import pytest

from harness.session import NOW, Session
from headrace.catalog.objects import Store
from headrace.core.errors import UserError


@pytest.mark.parametrize(
    ("store_type", "expected"),
    [
        ("snowflake", "a Snowflake store contains tables, not streams and changelogs"),
        ("oracle", "changes of Oracle's tables are not read: reading LogMiner could not be tested against a server"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("columns", ["STREAM s (op VARCHAR)", "CHANGELOG s (id BIGINT, PRIMARY KEY (id))"])
async def test_a_stream_is_refused(session: Session, store_type: str, expected: str, columns: str) -> None:
    session.catalog.create_store(Store("t", store_type, "sysadmin", NOW, NOW, {}))
    await session.run("USE DATABASE shop")
    statement = f"CREATE {columns} WITH ('store' = 't', 'value.format' = 'json')"
    with pytest.raises(UserError) as caught:
        await session.run(statement)
    assert (caught.value.state.value, caught.value.message) == ("0A000", expected)
    assert caught.value.hint == "Use CREATE TABLE."
    assert caught.value.span is not None
