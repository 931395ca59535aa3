"""A privilege that is revoked reaches everything that is derived from the relation, however many views are between."""

from __future__ import annotations

import pytest

from harness.session import Session
from headrace.catalog.objects import Principal
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState

ROOT = Principal("admin", ("orgadmin",), "orgadmin")
MAKER, READER = (Principal(role, (role,), role) for role in ("maker", "reader"))
REVOKE = "REVOKE SELECT ON RELATION shop.public.orders FROM ROLE maker"


@pytest.fixture
async def views(session: Session) -> Session:
    """The role maker created v from orders, w from v and x from w; reader may SELECT v and w, but not their sources."""
    for role in ("maker", "reader"):
        for text in (
            f"CREATE ROLE {role}",
            f"GRANT CREATE_QUERY ON ORGANIZATION TO ROLE {role}",
            f"GRANT USAGE ON DATABASE shop TO ROLE {role}",
            f"GRANT USAGE, CREATE_RELATION ON SCHEMA shop.public TO ROLE {role}",
            f"GRANT USAGE ON STORE k TO ROLE {role}",
        ):
            await session.answer(text, ROOT)
    await session.answer("GRANT SELECT ON RELATION shop.public.orders TO ROLE maker", ROOT)
    orders = "orders WITH ('starting.position' = 'earliest')"
    for name, source in (("v", orders), ("w", "v"), ("x", "w")):
        await session.answer(view(name, f"SELECT n FROM shop.public.{source}"), MAKER)
    for name in ("v", "w"):
        await session.answer(f"GRANT SELECT ON RELATION shop.public.{name} TO ROLE reader", MAKER)
    return session


def view(name: str, query: str) -> str:
    return f"CREATE MATERIALIZED VIEW shop.public.{name} WITH ('query.name' = {name}) AS {query}"


def lost(session: Session) -> dict[str, str | None]:
    """Return the privilege whose loss keeps each query from starting, and from running on."""
    state = session.catalog.snapshot()
    return {
        query.name or "": state.policy.lost(query.owner, query.needs, state.by_id)
        for query in state.queries.values()
    }


async def refused(session: Session, text: str, principal: Principal) -> UserError:
    with pytest.raises(UserError) as caught:
        await session.answer(text, principal)
    assert caught.value.state is SqlState.INSUFFICIENT_PRIVILEGE
    return caught.value


async def test_a_revoked_source_ends_views_of_views_of_everybody(views: Session) -> None:
    await views.answer(view("theirs", "SELECT n FROM shop.public.w"), READER)
    assert lost(views) == dict.fromkeys(("v", "w", "x", "theirs"))
    await views.answer(REVOKE, ROOT)
    reason = "the role 'maker' lacks the privilege SELECT on the stream shop.public.orders"
    of_view = f"the materialized view shop.public.v: {reason}"
    hidden = "lacks a privilege on a relation that the view reads"
    assert lost(views) == {
        "v": reason,
        "w": of_view,
        "x": of_view,
        "theirs": f"the materialized view shop.public.v: its owner, the role 'maker', {hidden}",
    }
    await views.answer("GRANT SELECT ON RELATION shop.public.orders TO ROLE maker", ROOT)
    assert lost(views) == dict.fromkeys(("v", "w", "x", "theirs"))


@pytest.mark.parametrize(
    "text",
    [
        view("more", "SELECT n FROM shop.public.w"),
        "EXPLAIN " + view("more", "SELECT n FROM shop.public.v"),
        view("more", "WITH a AS (SELECT n FROM shop.public.w) SELECT n FROM a"),
        """BEGIN APPLICATION a
        CREATE VIRTUAL STREAM virtual.public.s AS SELECT n FROM shop.public.w;
        CREATE MATERIALIZED VIEW shop.public.more AS SELECT n FROM virtual.public.s;
        END APPLICATION""",
    ],
)
async def test_nothing_new_is_derived_from_a_view_whose_source_was_revoked(views: Session, text: str) -> None:
    await views.answer(REVOKE, ROOT)
    for principal in (MAKER, READER):
        error = await refused(views, text, principal)
        assert "materialized view shop.public.v" in error.message
        assert ("orders" in error.text()) is (principal is MAKER)


async def test_the_rows_that_a_view_has_stay_its_readers(views: Session) -> None:
    await views.answer(REVOKE, ROOT)
    for principal in (MAKER, READER):
        await views.answer("EXPLAIN SELECT n FROM shop.public.w", principal)


async def test_an_application_ends_with_what_a_view_in_it_reads(views: Session) -> None:
    text = """BEGIN APPLICATION a
        CREATE VIRTUAL STREAM virtual.public.s AS SELECT n FROM shop.public.w;
        CREATE MATERIALIZED VIEW shop.public.more AS SELECT n FROM virtual.public.s;
        CREATE MATERIALIZED VIEW shop.public.most AS SELECT n FROM shop.public.more;
        END APPLICATION"""
    await views.answer(text, READER)
    assert lost(views)["a"] is None
    await views.answer("REVOKE SELECT ON RELATION shop.public.w FROM ROLE reader", ROOT)
    assert "shop.public.w" in str(lost(views)["a"])
    await views.answer("GRANT SELECT ON RELATION shop.public.w TO ROLE reader", ROOT)
    await views.answer(REVOKE, ROOT)
    assert "shop.public.v: its owner, the role 'maker'," in str(lost(views)["a"])


async def test_whoever_is_given_a_view_vouches_for_what_it_reads(views: Session) -> None:
    await views.answer("GRANT OWNERSHIP ON RELATION shop.public.v TO ROLE public", ROOT)
    assert "the role 'public'" in str(lost(views)["w"])
    await refused(views, view("more", "SELECT n FROM shop.public.v"), READER)
    await views.answer("GRANT OWNERSHIP ON RELATION shop.public.v TO ROLE sysadmin", ROOT)
    await views.answer(view("more", "SELECT n FROM shop.public.v"), READER)
