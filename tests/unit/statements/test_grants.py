"""GRANT, REVOKE and roles: who may, what it changes, and what rests on what."""

from __future__ import annotations

import pytest

from harness.session import Session
from headrace.catalog.objects import DesiredState, Principal, QueryState
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState

ROOT = Principal("admin", ("orgadmin",), "orgadmin")
ORDERS = "RELATION shop.public.orders"


def someone(role: str) -> Principal:
    return Principal(role, (role,), role)


async def said(session: Session, text: str, principal: Principal = ROOT) -> list[tuple[str | None, ...]]:
    return await session.answer(text, principal)


async def refused(session: Session, text: str, principal: Principal = ROOT) -> UserError:
    with pytest.raises(UserError) as caught:
        await session.answer(text, principal)
    return caught.value


async def roles(session: Session, *names: str) -> None:
    for name in names:
        await said(session, f"CREATE ROLE {name}")


async def reader(session: Session, name: str, option: str = "") -> None:
    await said(session, f"GRANT USAGE ON DATABASE shop TO ROLE {name}")
    await said(session, f"GRANT USAGE ON SCHEMA shop.public TO ROLE {name}")
    await said(session, f"GRANT SELECT ON {ORDERS} TO ROLE {name} {option}")


async def test_a_reader_sees_and_may_do_exactly_what_was_granted(session: Session) -> None:
    await roles(session, "r")
    await reader(session, "r")
    asked = someone("r")
    assert [row[0] for row in await said(session, "LIST DATABASES", asked)] == ["shop"]
    assert [row[:2] for row in await said(session, "LIST RELATIONS", asked)] == [("orders", "stream")]
    assert await said(session, "LIST STORES", asked) == []
    for name in ("stores", "schema_registries", "queries"):
        assert await said(session, f"SELECT * FROM deltastream.sys.{name}", asked) == []
    statement = "SELECT name FROM deltastream.sys.relations"
    assert await said(session, statement, asked) == [("orders",)]
    statement = "SELECT table_name FROM shop.information_schema.tables"
    assert await said(session, statement, asked) == [("orders",)]
    assert await said(session, f"CAN I SELECT ON {ORDERS}", asked) == [("true", None)]
    await said(session, f"DESCRIBE {ORDERS}", asked)
    await said(session, "EXPLAIN SELECT n FROM shop.public.orders", asked)
    for text, state in (
        ('SELECT * FROM shop.public."Best"', SqlState.RELATION_NOT_FOUND),
        ("SELECT * FROM lab.tests.orders", SqlState.RELATION_NOT_FOUND),
        ("DESCRIBE DATABASE lab", SqlState.DATABASE_NOT_FOUND),
        ("DROP RELATION shop.public.orders", SqlState.INSUFFICIENT_PRIVILEGE),
        ("LIST ENTITIES IN STORE k", SqlState.STORE_NOT_FOUND),
        ("CREATE SCHEMA shop.mine", SqlState.INSUFFICIENT_PRIVILEGE),
        ("CREATE DATABASE IF NOT EXISTS lab", SqlState.INSUFFICIENT_PRIVILEGE),
        ("INSERT INTO shop.public.orders SELECT n FROM shop.public.orders", SqlState.INSUFFICIENT_PRIVILEGE),
        (f"GRANT SELECT ON {ORDERS} TO ROLE public", SqlState.INSUFFICIENT_PRIVILEGE),
        ("GRANT ROLE r TO ROLE sysadmin", SqlState.INSUFFICIENT_PRIVILEGE),
        ("CREATE ROLE other", SqlState.INSUFFICIENT_PRIVILEGE),
    ):
        assert (await refused(session, text, asked)).state is state, text


@pytest.mark.parametrize(
    ("there", "gone"),
    [
        ("SELECT * FROM lab.tests.orders", "SELECT * FROM lab.tests.nothing"),
        ("SELECT * FROM lab.information_schema.tables", "SELECT * FROM gone.information_schema.tables"),
        ("DESCRIBE RELATION lab.tests.orders", "DESCRIBE RELATION lab.tests.nothing"),
        ("DROP RELATION lab.tests.orders", "DROP RELATION lab.tests.nothing"),
        ("DESCRIBE SCHEMA lab.tests", "DESCRIBE SCHEMA lab.nothing"),
        ("DROP DATABASE lab", "DROP DATABASE gone"),
        ("DESCRIBE STORE k", "DESCRIBE STORE gone"),
        ("DROP STORE IF EXISTS k", "DROP STORE IF EXISTS gone"),
        ("LIST ENTITIES IN STORE k", "LIST ENTITIES IN STORE gone"),
        ("DESCRIBE SCHEMA_REGISTRY r", "DESCRIBE SCHEMA_REGISTRY gone"),
        ("DROP DESCRIPTOR_SOURCE p", "DROP DESCRIPTOR_SOURCE gone"),
        ("CAN I SELECT ON RELATION lab.tests.orders", "CAN I SELECT ON RELATION lab.tests.nothing"),
        ("CAN I USAGE ON STORE k", "CAN I USAGE ON STORE gone"),
        ("GRANT USAGE ON STORE k TO ROLE public", "GRANT USAGE ON STORE gone TO ROLE public"),
        ("EXPLAIN SELECT x FROM lab.tests.orders", "EXPLAIN SELECT x FROM lab.tests.nothing"),
        ("LIST SCHEMAS IN DATABASE lab", "LIST SCHEMAS IN DATABASE gone"),
        ("USE STORE k", "USE STORE gone"),
    ],
)
async def test_what_a_role_may_not_know_of_is_answered_as_what_is_not_there(
    session: Session, there: str, gone: str
) -> None:
    async def answer_to(text: str) -> str:
        try:
            return str(await said(session, text, someone("public")))
        except UserError as error:
            return error.text()

    first, second = await answer_to(there), await answer_to(gone)
    for name, other in (("lab", "gone"), ("orders", "nothing"), ("tests", "nothing")):
        first, second = first.replace(name, other), second.replace(name, other)
    for name in ("k", "r", "p"):
        first = first.replace(f"'{name}'", "'gone'").replace(f" {name} ", " gone ")
        first = first.replace(f'"{name}"', '"gone"').replace(f"store {name}", "store gone")
    assert first.partition(" at line")[0] == second.partition(" at line")[0]


async def test_an_entity_that_is_in_use_names_no_relation_to_who_knows_none(session: Session) -> None:
    await roles(session, "r")
    await said(session, "GRANT USAGE ON STORE k TO ROLE r")
    await session.run("CREATE MATERIALIZED VIEW shop.public.v AS SELECT n FROM shop.public.orders")
    error = await refused(session, "DROP ENTITY shop_orders IN STORE k", someone("r"))
    assert error.state is SqlState.DEPENDENT_OBJECTS_EXIST
    assert "public" not in error.message + str(error.hint)
    assert "shop.public.orders" in (await refused(session, "DROP ENTITY shop_orders IN STORE k")).message


async def test_a_grant_option_may_be_used_and_what_rests_on_it_goes_with_it(session: Session) -> None:
    await roles(session, "a", "b", "c")
    await reader(session, "a", "WITH GRANT OPTION")
    await said(session, f"GRANT SELECT ON {ORDERS} TO ROLE b WITH GRANT OPTION", someone("a"))
    for name in ("a", "b"):
        await reader(session, name)
    await said(session, f"GRANT SELECT ON {ORDERS} TO ROLE c", someone("b"))
    listed = "SELECT grantee, grant_option, granted_by FROM deltastream.sys.grants WHERE privilege = 'SELECT' ORDER BY grantee"
    given = [("a", "true", "sysadmin"), ("b", "true", "a"), ("c", "false", "b")]
    assert await said(session, listed) == given
    error = await refused(session, f"REVOKE SELECT ON {ORDERS} FROM ROLE a")
    assert (error.state, "b, c" in error.message) == (SqlState.DEPENDENT_OBJECTS_EXIST, True)
    assert await said(session, listed) == given
    await said(session, f"REVOKE GRANT OPTION FOR SELECT ON {ORDERS} FROM ROLE a CASCADE")
    assert await said(session, listed) == [("a", "false", "sysadmin")]


async def test_privileges_on_the_organization_are_granted_by_who_holds_them_with_the_option(
    session: Session,
) -> None:
    await roles(session, "team", "maker", "r")
    grant = "GRANT CREATE_QUERY ON ORGANIZATION TO ROLE r"
    await said(session, "GRANT CREATE_QUERY ON ORGANIZATION TO ROLE maker")
    await said(session, "GRANT CREATE_QUERY ON ORGANIZATION TO ROLE team WITH GRANT OPTION")
    for text, principal, state in (
        (grant, someone("r"), SqlState.INSUFFICIENT_PRIVILEGE),
        # To hold the privilege is not enough, and the option is for this privilege alone.
        (grant, someone("maker"), SqlState.INSUFFICIENT_PRIVILEGE),
        (grant.replace("CREATE_QUERY", "MANAGE_GRANTS"), someone("team"), SqlState.INSUFFICIENT_PRIVILEGE),
        (grant.replace("CREATE_QUERY", "SELECT"), ROOT, SqlState.SYNTAX_ERROR),
        (grant.replace("ROLE r", "ROLE nobody"), ROOT, SqlState.ROLE_NOT_FOUND),
    ):
        assert (await refused(session, text, principal)).state is state, text
    assert (await said(session, "CAN I CREATE_QUERY", someone("r")))[0][0] == "false"
    await said(session, grant, someone("team"))
    assert await said(session, "CAN I CREATE_QUERY", someone("r")) == [("true", None)]


async def test_effective_privileges_are_those_that_the_role_can_use(session: Session) -> None:
    await roles(session, "r", "inner")
    await reader(session, "inner")
    await said(session, "GRANT ROLE inner TO ROLE r")
    await said(session, 'GRANT SELECT ON RELATION shop.public."Best" TO ROLE r')
    await said(session, "GRANT SELECT ON RELATION lab.tests.orders TO ROLE r")
    read = "SELECT privilege, kind, name, source FROM deltastream.sys.effective_privileges"
    # Not on lab.tests.orders, since the role cannot enter its database.
    ordered = f"{read} WHERE name NOT LIKE 'default%' ORDER BY 1, 2, 3"
    assert await said(session, ordered, someone("r")) == [
        ("SELECT", "materialized view", 'shop.public."Best"', "granted to r"),
        ("SELECT", "stream", "shop.public.orders", "granted to inner"),
        ("USAGE", "database", "shop", "granted to inner"),
        ("USAGE", "schema", "shop.public", "granted to inner"),
    ]
    owned = f"{read} WHERE name = 'shop.public.orders' OR privilege = 'CREATE_STORE'"
    assert set(await said(session, owned, someone("sysadmin"))) == {
        *(
            (each, "stream", "shop.public.orders", "owned by sysadmin")
            for each in ("OWNERSHIP", "SELECT", "INSERT")
        ),
        ("CREATE_STORE", "organization", "headrace", "built into sysadmin"),
    }


async def test_grants_may_be_repeated(session: Session) -> None:
    await roles(session, "r")
    for text in ("GRANT ALL PRIVILEGES ON DATABASE shop TO ROLE r", "GRANT ROLE r TO ROLE sysadmin"):
        (first,), (second,) = await said(session, text), await said(session, text)
        assert first[3] != second[3]
    (row,) = await said(session, "REVOKE SELECT ON RELATION shop.public.orders FROM ROLE r")
    assert "did not have it" in str(row[3])
    assert {row[0] for row in await said(session, "LIST GRANTS TO ROLE r")} == {"USAGE", "CREATE_SCHEMA"}
    assert ("USAGE", "role", "r", "role", "sysadmin") in [
        row[:5] for row in await said(session, "LIST GRANTS OF ROLE r")
    ]


async def test_roles_make_no_circle(session: Session) -> None:
    await roles(session, "a", "b")
    await said(session, "GRANT ROLE a TO ROLE b")
    for text in (
        "GRANT ROLE b TO ROLE a",
        "GRANT ROLE a TO ROLE a",
        "GRANT ROLE orgadmin TO ROLE public",
        "REVOKE ROLE sysadmin FROM ROLE orgadmin",
        "DROP ROLE sysadmin",
        "REVOKE ROLE orgadmin FROM USER admin",
        f"GRANT OWNERSHIP, SELECT ON {ORDERS} TO ROLE a",
    ):
        state = (await refused(session, text)).state
        assert state in (SqlState.INVALID_GRANT_OPERATION, SqlState.SYNTAX_ERROR), text


async def test_a_role_above_has_what_the_role_has_and_its_objects(session: Session) -> None:
    await roles(session, "maker")
    await said(session, "GRANT CREATE_DATABASE ON ORGANIZATION TO ROLE maker")
    await said(session, "CREATE DATABASE theirs", someone("maker"))
    hidden = "DESCRIBE DATABASE theirs"
    assert (await refused(session, hidden, someone("sysadmin"))).state is SqlState.DATABASE_NOT_FOUND
    await said(session, "GRANT ROLE maker TO ROLE sysadmin")
    await said(session, hidden, someone("sysadmin"))
    assert (await refused(session, "DROP ROLE maker")).state is SqlState.DEPENDENT_OBJECTS_EXIST
    await said(session, "GRANT OWNERSHIP ON DATABASE theirs TO ROLE sysadmin")
    await said(session, "GRANT OWNERSHIP ON SCHEMA theirs.public TO ROLE sysadmin")
    await said(session, "DROP ROLE maker")
    await roles(session, "maker")
    error = await refused(session, "CREATE DATABASE more", someone("maker"))
    assert error.state is SqlState.INSUFFICIENT_PRIVILEGE, "a role of the same name begins with nothing"


async def test_a_user_takes_on_the_roles_that_were_granted(session: Session) -> None:
    await roles(session, "r")
    await said(session, "GRANT ROLE r TO USER admin")
    assert session.catalog.user("admin") is not None
    assert "r" in getattr(session.catalog.user("admin"), "roles", ())
    await said(session, "REVOKE ROLE r FROM USER admin")
    assert "r" not in getattr(session.catalog.user("admin"), "roles", ())
    assert (await refused(session, "GRANT ROLE r TO USER nobody")).state is SqlState.USER_NOT_FOUND


async def test_who_manages_grants_sees_everything_and_reads_nothing(session: Session) -> None:
    keeper = someone("securityadmin")
    assert len(await said(session, "LIST RELATIONS", keeper)) == 3
    error = await refused(session, "SELECT * FROM shop.public.orders", keeper)
    assert error.state is SqlState.INSUFFICIENT_PRIVILEGE
    assert "SELECT on the stream shop.public.orders" in error.message


async def test_drop_cascade_needs_what_it_would_take_along(session: Session) -> None:
    await roles(session, "r")
    await said(session, "GRANT OWNERSHIP ON STORE k TO ROLE r")
    error = await refused(session, "DROP STORE k", someone("r"))
    assert (error.state, "orders" in error.message) == (SqlState.DEPENDENT_OBJECTS_EXIST, False)
    error = await refused(session, "DROP STORE k CASCADE", someone("r"))
    assert (error.state, "orders" in error.message) == (SqlState.INSUFFICIENT_PRIVILEGE, False)


VIEW = "SELECT n FROM shop.public.orders"


async def test_future_grants_are_what_a_new_relation_begins_with(session: Session) -> None:
    await roles(session, "r", "other")
    await said(session, "GRANT SELECT ON FUTURE RELATIONS IN DATABASE shop TO ROLE r, other")
    await said(session, "GRANT USAGE ON DATABASE shop TO ROLE r")
    await said(session, "GRANT USAGE ON SCHEMA shop.public TO ROLE r")
    await session.run(f"CREATE MATERIALIZED VIEW shop.public.v AS {VIEW}")
    assert await said(session, "CAN I SELECT ON RELATION shop.public.v", someone("r")) == [("true", None)]
    # Those of the schema count, and of the database none then; what is there stays as it is.
    [row] = await said(
        session, "GRANT INSERT ON FUTURE RELATIONS IN SCHEMA shop.public TO ROLE r WITH GRANT OPTION"
    )
    assert row[3] == "INSERT on future relations in the schema shop.public granted to r"
    await session.run(f"CREATE MATERIALIZED VIEW shop.public.w AS {VIEW}")
    grants = await said(
        session,
        "SELECT name, privilege, grant_option FROM deltastream.sys.grants WHERE grantee = 'r' AND name LIKE '%._'",
    )
    assert sorted(grants) == [("shop.public.v", "SELECT", "false"), ("shop.public.w", "INSERT", "true")]
    assert await said(session, "LIST FUTURE GRANTS IN SCHEMA shop.public") == [
        ("INSERT", "relation", "schema", "shop.public", "r", "true", "sysadmin")
    ]
    assert len(await said(session, "LIST FUTURE GRANTS TO ROLE other")) == 1
    await said(session, "REVOKE ALL PRIVILEGES ON FUTURE RELATIONS IN SCHEMA shop.public FROM ROLE r")
    await said(session, "DROP ROLE other")
    assert await said(session, "SELECT kind, grantee FROM deltastream.sys.future_grants") == [
        ("database", "r")
    ]
    await said(session, "DROP DATABASE lab CASCADE")


async def test_future_grants_are_for_any_kind_and_the_innermost_place_counts(session: Session) -> None:
    await roles(session, "r")
    for text in (
        "GRANT USAGE ON FUTURE DATABASES IN ORGANIZATION TO ROLE r",
        "GRANT USAGE ON FUTURE SCHEMAS IN ORGANIZATION TO ROLE r",
        "GRANT SELECT ON FUTURE RELATIONS IN ORGANIZATION TO ROLE r",
        "GRANT ALL PRIVILEGES ON FUTURE SCHEMAS IN DATABASE shop TO ROLE r",
        "GRANT USAGE ON FUTURE SECRETS IN ORGANIZATION TO ROLE r",
        "GRANT USAGE ON FUTURE COMPUTE_POOLS IN ORGANIZATION TO ROLE r",
        "GRANT ALL ON FUTURE QUERIES IN ORGANIZATION TO ROLE r WITH GRANT OPTION",
    ):
        await said(session, text)
    for text in (
        "CREATE DATABASE a; CREATE SCHEMA a.b; CREATE SCHEMA shop.c",
        "CREATE SECRET pin WITH ('type' = generic_string, 'secret_string' = 'open sesame')",
        "CREATE COMPUTE_POOL p",
        f"CREATE MATERIALIZED VIEW a.b.v WITH ('query.name' = q) AS {VIEW}",
    ):
        await session.run(text)
    asked = "SELECT kind, name, privilege FROM deltastream.sys.grants WHERE grantee = 'r' AND kind <> 'query'"
    assert await said(session, f"{asked} ORDER BY kind, name, privilege") == [
        ("compute pool", "p", "USAGE"),
        ("database", "a", "USAGE"),
        ("materialized view", "a.b.v", "SELECT"),
        ("schema", "a.b", "USAGE"),
        ("schema", "a.public", "USAGE"),
        ("schema", "shop.c", "CREATE_RELATION"),
        ("schema", "shop.c", "USAGE"),
        ("secret", "pin", "USAGE"),
    ]
    assert await said(session, "SELECT n FROM a.b.v", someone("r")) == []
    await said(session, "GRANT USAGE ON QUERY q TO ROLE public", someone("r"))
    listed = await said(session, "LIST FUTURE GRANTS IN ORGANIZATION")
    assert ("USAGE", "query", "organization", "headrace", "r", "true", "orgadmin") in listed
    assert {row[1] for row in listed} == {"database", "schema", "relation", "secret", "compute pool", "query"}
    error = await refused(session, "GRANT CREATE_RELATION ON FUTURE SECRETS IN ORGANIZATION TO ROLE r")
    assert error.state is SqlState.SYNTAX_ERROR
    # The query is done, and what was granted on it by its grant option goes with the role all the same.
    (query,) = session.catalog.queries()
    session.catalog.set_desired_state(query.id, DesiredState.TERMINATED)
    session.catalog.record_query_state(query.id, QueryState.TERMINATED)
    await said(session, "DROP ROLE r")
    assert await said(session, "LIST FUTURE GRANTS") == []


async def test_future_grants_take_the_right_to_grant_what_others_will_own(session: Session) -> None:
    for text in (
        "GRANT SELECT ON FUTURE RELATIONS IN SCHEMA shop.public TO ROLE public",
        "REVOKE SELECT ON FUTURE RELATIONS IN DATABASE shop FROM ROLE public",
    ):
        error = await refused(session, text, someone("sysadmin"))
        assert (error.state, "MANAGE_GRANTS" in error.message) == (SqlState.INSUFFICIENT_PRIVILEGE, True)
    text = "GRANT SELECT, OWNERSHIP ON FUTURE RELATIONS IN SCHEMA shop.public TO ROLE public"
    assert (await refused(session, text)).state is SqlState.INVALID_GRANT_OPERATION
    text = "GRANT USAGE ON FUTURE RELATIONS IN SCHEMA shop.public TO ROLE public"
    assert (await refused(session, text)).state is SqlState.SYNTAX_ERROR


async def test_with_managed_access_the_schemas_owner_decides_and_not_who_made_a_relation(
    session: Session,
) -> None:
    await roles(session, "keeper", "maker", "r")
    keeper, maker = someone("keeper"), someone("maker")
    for text in (
        "GRANT USAGE, CREATE_SCHEMA ON DATABASE shop TO ROLE keeper",
        "GRANT USAGE ON DATABASE shop TO ROLE maker",
        f"GRANT SELECT ON {ORDERS} TO ROLE maker",
        "GRANT USAGE ON SCHEMA shop.public TO ROLE maker",
        "GRANT CREATE_QUERY ON ORGANIZATION TO ROLE maker",
    ):
        await said(session, text)
    await said(session, "CREATE SCHEMA shop.kept WITH MANAGED ACCESS", keeper)
    await said(session, "GRANT USAGE, CREATE_RELATION ON SCHEMA shop.kept TO ROLE maker", keeper)
    await said(session, "GRANT SELECT ON FUTURE RELATIONS IN SCHEMA shop.kept TO ROLE r", keeper)
    await said(session, f"CREATE MATERIALIZED VIEW shop.kept.v AS {VIEW}", maker)
    assert await said(
        session, "SELECT grantee FROM deltastream.sys.grants WHERE name = 'shop.kept.v' ORDER BY grantee"
    ) == [("maker",), ("r",)]
    for text in (
        "GRANT SELECT ON RELATION shop.kept.v TO ROLE public",
        "GRANT OWNERSHIP ON RELATION shop.kept.v TO ROLE public",
        "ALTER RELATION shop.kept.v OWNER TO public",
        "REVOKE SELECT ON RELATION shop.kept.v FROM ROLE r",
    ):
        assert (await refused(session, text, maker)).state is SqlState.INSUFFICIENT_PRIVILEGE
    # The keeper grants what it may not read.
    assert (
        await refused(session, "SELECT * FROM shop.kept.v", keeper)
    ).state is SqlState.INSUFFICIENT_PRIVILEGE
    await said(session, "GRANT SELECT ON RELATION shop.kept.v TO ROLE r, keeper", keeper)
    await said(session, "REVOKE SELECT ON RELATION shop.kept.v FROM ROLE r", keeper)
    asked = "SELECT name FROM deltastream.sys.schemas WHERE managed_access"
    assert await said(session, asked) == [("kept",)]
    # To give up the right or to take it from others is for who owns the schema and may grant everything.
    for principal in (keeper, someone("securityadmin"), maker):
        text = "ALTER SCHEMA shop.kept DISABLE MANAGED ACCESS"
        assert (await refused(session, text, principal)).state is SqlState.INSUFFICIENT_PRIVILEGE
    await said(session, "GRANT ROLE keeper TO ROLE orgadmin")
    await said(session, text)
    await said(session, text)
    assert await said(session, asked) == []
    await said(session, "GRANT SELECT ON RELATION shop.kept.v TO ROLE r", maker)
    await said(session, "ALTER SCHEMA shop.kept ENABLE MANAGED ACCESS")
    error = await refused(session, "REVOKE SELECT ON RELATION shop.kept.v FROM ROLE r", maker)
    assert error.state is SqlState.INSUFFICIENT_PRIVILEGE


@pytest.mark.parametrize("said_as", ["GRANT OWNERSHIP ON {} TO ROLE {}", "ALTER {} OWNER TO {}"])
@pytest.mark.parametrize(
    "what", ["QUERY q", "MATERIALIZED VIEW shop.public.v", "DATABASE mine", "ROLE below"]
)
async def test_nobody_makes_a_role_an_owner_that_is_neither_held_nor_theirs_to_grant(
    session: Session, what: str, said_as: str
) -> None:
    await roles(session, "maker", "theirs")
    await reader(session, "maker")
    for text in (
        "GRANT CREATE_QUERY, CREATE_DATABASE, MANAGE_MEMBERS ON ORGANIZATION TO ROLE maker",
        "GRANT CREATE_RELATION ON SCHEMA shop.public TO ROLE maker",
    ):
        await said(session, text)
    maker = someone("maker")
    await said(session, "CREATE DATABASE mine", maker)
    await said(session, "CREATE ROLE below", maker)
    named = "CREATE MATERIALIZED VIEW shop.public.v WITH ('query.name' = q)"
    await said(session, f"{named} AS SELECT n FROM shop.public.orders", maker)
    # What runs or is read has the rights of its owner: else anybody could have it run with the rights of sysadmin.
    for role in ("sysadmin", "theirs"):
        error = await refused(session, said_as.format(what, role), maker)
        assert error.state is SqlState.INSUFFICIENT_PRIVILEGE
        assert f"does not hold the role '{role}'" in error.message
    assert (await refused(session, said_as.format(what, "nobody"), maker)).state is SqlState.ROLE_NOT_FOUND
    # The administrator may grant every role.
    await said(session, said_as.format(what, "theirs"))
    await said(session, said_as.format(what, "maker"), someone("securityadmin"))


async def test_a_later_role_of_the_same_name_does_not_get_the_queries_of_the_one_before(
    session: Session,
) -> None:
    await roles(session, "r")
    await session.run("CREATE MATERIALIZED VIEW shop.public.v WITH ('query.name' = q) AS " + VIEW)
    await said(session, "GRANT OWNERSHIP ON QUERY q TO ROLE r")
    (query,) = session.catalog.queries()
    session.catalog.set_desired_state(query.id, DesiredState.TERMINATED)
    session.catalog.record_query_state(query.id, QueryState.TERMINATED)
    for text in ("DROP ROLE r", "CREATE ROLE r"):
        await said(session, text)
    assert (await refused(session, "RESTART QUERY q", someone("r"))).state is SqlState.QUERY_NOT_FOUND
    assert [item.owner for item in session.catalog.queries()] == ["orgadmin"]
