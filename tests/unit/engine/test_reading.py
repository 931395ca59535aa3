"""Privileges for reading live rows, at the start and later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.catalog.objects import Principal, Relation, RelationKind
from headrace.core.context import SessionContext
from headrace.core.names import RelationName
from headrace.core.schema import Column, Schema
from headrace.core.types import VARCHAR
from headrace.engine.results import ResultChannel
from headrace.session import StatementService
from headrace.statements.base import Services
from tests.unit.engine.conftest import NOW

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Bench

ROOT, READER = Principal("admin", ("orgadmin",), "orgadmin"), Principal("r", ("r",), "r")
RELATION = RelationName("d", "public", "orders")


async def test_a_reader_gets_an_error_with_the_privilege_that_its_role_lost(bench: Bench) -> None:
    bench.catalog.create_database("d", "sysadmin")
    bench.catalog.create_relation(
        Relation(
            RELATION,
            RelationKind.STREAM,
            Schema((Column("n", VARCHAR),)),
            "sysadmin",
            NOW,
            NOW,
            store="store_1",
            entity=("rows",),
        )
    )
    service = StatementService(Services(bench.catalog, bench.engine, bench.settings))

    async def run(text: str, who: Principal = ROOT) -> object:
        return (await service.execute(text, principal=who, context=SessionContext(""))).outcome

    await run(
        "CREATE ROLE r; GRANT USAGE ON DATABASE d TO ROLE r; GRANT USAGE ON SCHEMA d.public TO ROLE r; "
        "GRANT SELECT ON RELATION d.public.orders TO ROLE r;"
    )
    await bench.engine.start()
    channel = await run("SELECT n FROM d.public.orders;", READER)
    assert isinstance(channel, ResultChannel)
    assert channel.lost() is None
    await run("ALTER RELATION d.public.orders RENAME TO sales;")
    assert channel.lost() is None
    await run("REVOKE SELECT ON RELATION d.public.sales FROM ROLE r;")
    lost = channel.lost()
    assert lost is not None
    assert "SELECT on the stream d.public.sales" in lost
    await run("GRANT SELECT ON RELATION d.public.sales TO ROLE r; REVOKE USAGE ON DATABASE d FROM ROLE r;")
    assert "USAGE on the database d" in str(channel.lost())
    await channel.close()
