"""Objects that a role may not know: every statement answers, in every place of a name, as for a missing object."""

from __future__ import annotations

import re
import uuid
from dataclasses import replace

import pytest

from harness.session import NOW, Session
from headrace.catalog.access import Privilege
from headrace.catalog.objects import DesiredState, Principal, QueryKind, Relation, RelationKind, Store
from headrace.core.context import SessionContext
from headrace.core.errors import HeadraceError
from headrace.core.names import RelationName
from headrace.core.resultset import ResultSet
from headrace.core.schema import Column, Schema
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT
from headrace.planner.physical import ReadEntity, SparkPlan, WriteEntity
from headrace.sql import parse
from headrace.statements.base import HANDLERS

ROOT = Principal("admin", ("orgadmin",), "orgadmin")
ASKED = Principal("ben@x.org", ("r",), "r")
CONTEXT = SessionContext("", database="mine", schema="public", store="own")
HIDDEN, ABSENT = "xqhidden", "xqabsent"

KINDS = (
    "DATABASE",
    "SCHEMA",
    "STORE",
    "SCHEMA_REGISTRY",
    "DESCRIPTOR_SOURCE",
    "FUNCTION_SOURCE",
    "FUNCTION",
    "SECRET",
    "COMPUTE_POOL",
    "SAVEPOINT",
    "ALERT",
    "QUERY",
    "RELATION",
    "STREAM",
    "MATERIALIZED VIEW",
    "VIEW",
)
OF_KINDS = (
    "ALTER {kind} {name} RENAME TO other",
    "ALTER {kind} {name} OWNER TO public",
    "GRANT OWNERSHIP ON {kind} {name} TO ROLE public",
    "GRANT ALL PRIVILEGES ON {kind} {name} TO ROLE public",
    "REVOKE ALL PRIVILEGES ON {kind} {name} FROM ROLE public",
    "LIST GRANTS ON {kind} {name}",
    "CAN I USAGE ON {kind} {name}",
    "CAN I SELECT ON {kind} {name}",
)
DROPPED = (
    "DROP {kind} {name}",
    "DROP {kind} {name} CASCADE",
    "DROP {kind} IF EXISTS {name}",
    "DESCRIBE {kind} {name}",
)
READ = "SELECT n FROM {name}"
FROM_OWN = "SELECT n FROM own WITH ('starting.position' = 'earliest'"
BAD = "source.deserialization.error"
LETTERS = f"'{BAD}.handling' = DEAD_LETTER, '{BAD}.log.store' = {{name}}"
OTHERS = f"""
USE DATABASE {{name}}
USE SCHEMA {{name}}
USE SCHEMA {{name}}.public
USE STORE {{name}}
USE COMPUTE_POOL {{name}}
SET DEFAULT DATABASE {{name}}
SET DEFAULT STORE {{name}}
LIST SCHEMAS IN DATABASE {{name}}
LIST RELATIONS IN SCHEMA {{name}}
LIST RELATIONS WHERE name = '{{name}}'
CREATE SCHEMA {{name}}.s
ALTER SCHEMA {{name}} ENABLE MANAGED ACCESS
CREATE STORE s WITH ('type' = KAFKA, 'uris' = '127.0.0.1:1', 'schema_registry.name' = {{name}})
CREATE STORE s WITH ('type' = KAFKA, 'uris' = '127.0.0.1:1', 'kafka.sasl.password' = SECRET {{name}})
UPDATE STORE {{name}} WITH ('uris' = '127.0.0.1:1')
UPDATE STORE own WITH ('schema_registry.name' = {{name}})
UPDATE STORE own WITH ('kafka.schema_registry_name' = {{name}})
UPDATE STORE own WITH ('kafka.sasl.password' = SECRET {{name}})
TEST STORE {{name}}
CREATE SCHEMA_REGISTRY s WITH ('type' = CONFLUENT, 'uris' = 'http://127.0.0.1:1', 'confluent.password' = SECRET {{name}})
UPDATE SCHEMA_REGISTRY {{name}} WITH ('uris' = 'http://127.0.0.1:1')
CREATE FUNCTION f() RETURNS INT LANGUAGE JAVA WITH ('source.name' = {{name}}, 'class.name' = 'com.x.Again')
COPY FUNCTION_SOURCE {{name}} TO 'x'
COPY DESCRIPTOR_SOURCE {{name}} TO 'x'
UPDATE SECRET {{name}} WITH ('secret_string' = 'y')
CREATE ENTITY e IN STORE {{name}}
UPDATE ENTITY e IN STORE {{name}} WITH ('topic.partitions' = 1)
OPTIMIZE ENTITY e IN STORE {{name}}
DESCRIBE ENTITY e IN STORE {{name}}
DROP ENTITY e IN STORE {{name}}
LIST ENTITIES IN STORE {{name}}
LIST PARTITIONS IN e IN STORE {{name}}
PRINT ENTITY e IN STORE {{name}}
INSERT INTO ENTITY e IN STORE {{name}} VALUE('{{{{}}}}')
GENERATE COLUMNS WITH ('topic' = 't', 'store' = {{name}})
GENERATE STREAM DDL s WITH ('topic' = 't', 'store' = {{name}})
CREATE STREAM s (n BIGINT) WITH ('value.format' = JSON, 'store' = {{name}})
CREATE STREAM {{name}}.public.s (n BIGINT) WITH ('value.format' = JSON)
CREATE STREAM s (n BIGINT) WITH ('value.format' = PROTOBUF, 'value.descriptor.name' = '{{name}}.shop.Order')
{READ}
SELECT missing FROM {{name}}
SELECT n FROM {{name}}.public.orders
SELECT table_name FROM {{name}}.information_schema.tables
SELECT {{name}}(n) FROM own
EXPLAIN {READ}
DESCRIBE {READ}
CREATE STREAM s AS {READ}
CREATE STREAM s WITH ('store' = {{name}}) AS {FROM_OWN})
CREATE MATERIALIZED VIEW s AS {READ}
CREATE VIEW s AS {READ}
CREATE MATERIALIZED VIEW s AS SELECT o.n FROM own o JOIN {{name}} x WITHIN 1 MINUTE ON o.n = x.n
CREATE MATERIALIZED VIEW s AS {FROM_OWN}, {LETTERS})
CREATE MATERIALIZED VIEW s AS SELECT missing FROM own WITH ({LETTERS})
INSERT INTO {{name}} SELECT n FROM own
INSERT INTO own {READ}
INSERT INTO {{name}} VALUES (1)
INSERT INTO own VALUES ((SELECT MAX(n) FROM {{name}}))
BEGIN APPLICATION a CREATE MATERIALIZED VIEW s AS {READ}; END APPLICATION
BEGIN APPLICATION a USE DATABASE {{name}}; END APPLICATION
CREATE VIRTUAL STREAM virtual.public.v AS {READ}
DESCRIBE RELATION COLUMNS {{name}}
ALTER STREAM {{name}} SET description = 'd'
STOP MATERIALIZED VIEW {{name}}
START RELATION {{name}}
DESCRIBE QUERY {{name}}
DESCRIBE QUERY EVENTS {{name}}
TERMINATE QUERY {{name}}
RESTART QUERY {{name}}
ALTER QUERY {{name}} AS SELECT n FROM own
CREATE OR REPLACE MATERIALIZED VIEW s AS {READ}
ALTER QUERY {{name}} ROLLBACK TO VERSION 1
TERMINATE QUERY {{name}} WITH SAVEPOINT s
CREATE SAVEPOINT s ON QUERY {{name}}
CREATE ALERT a ON QUERY {{name}} WITH ('url' = 'http://h/')
INSERT INTO own SELECT n FROM own QUERY WITH ('resume.from.savepoint' = {{name}})
INSERT INTO own SELECT n FROM own QUERY WITH ('resume.from.query.id' = {{name}})
INSERT INTO own SELECT n FROM own QUERY WITH ('resume.from.query.name' = {{name}})
EXPLAIN WHY {{name}}
UPDATE COMPUTE_POOL {{name}} WITH ('compute_pool.size' = medium)
START COMPUTE_POOL {{name}}
STOP COMPUTE_POOL {{name}}
GRANT SELECT ON FUTURE RELATIONS IN SCHEMA {{name}} TO ROLE public
REVOKE SELECT ON FUTURE RELATIONS IN DATABASE {{name}} FROM ROLE public
LIST FUTURE GRANTS IN DATABASE {{name}}
CREATE API_TOKEN {{name}} WITH ('token.role_name' = r)
ALTER API_TOKEN {{name}}
DROP API_TOKEN {{name}}
DESCRIBE API_TOKEN {{name}}
INVITE USER '{{name}}@x.org' WITH ('roles' = (public))
REVOKE INVITATION {{name}}
ALTER USER '{{name}}@x.org' SET PASSWORD 'correct horse battery'
DROP USER '{{name}}@x.org'
DESCRIBE USER '{{name}}@x.org'
"""
NAMES_NOTHING_HIDDEN = {
    # A role, which everybody knows, or the organization.
    "CreateRole",
    "DropRole",
    "DescribeRole",
    "GrantRole",
    "RevokeRole",
    "ListRoles",
    "UpdateOrganization",
    "RenameOrganization",
    "DescribeOrganization",
    "ListOrganizations",
    "RotateKey",
    # A name that is only given: two objects cannot share one, so that CREATE says that it is taken (ADR 27).
    "CreateDatabase",
    "CreateDescriptorSource",
    "CreateFunctionSource",
    "CreateSecret",
    "CreateComputePool",
    "GenerateTemplate",
    # What a role sees, and nothing by name.
    "ListDatabases",
    "ListStores",
    "ListSchemaRegistries",
    "ListDescriptorSources",
    "ListDescriptors",
    "ListFunctionSources",
    "ListFunctions",
    "ListSecrets",
    "ListQueries",
    "ListSavepoints",
    "ListAlerts",
    # The organization's administrator, who knows everything.
    "ImportSavepoint",
    "CreateBackup",
    "ListComputePools",
    "ListApiTokens",
    "ListInvitations",
    "ListUsers",
}


def statements() -> list[str]:
    of_kinds = [text.replace("{kind}", kind) for kind in KINDS for text in (*OF_KINDS, *DROPPED)]
    written = [
        line.replace("{{", "{").replace("}}", "}") if "{{" in line else line for line in OTHERS.splitlines()
    ]
    return [text for text in (*of_kinds, *written) if text and _parses(text)]


def _parses(text: str) -> bool:
    """Not every kind takes every statement."""
    try:
        return bool(parse(text.replace("{name}", ABSENT)))
    except HeadraceError:
        return False


@pytest.fixture
async def organization(session: Session) -> Session:
    """The role r may create everything and has the database mine with the stream own; what is named `HIDDEN` is of others."""
    catalog = session.catalog
    for text in (
        "CREATE ROLE r",
        "GRANT ROLE r TO ROLE orgadmin",
        *(f"GRANT {item} ON ORGANIZATION TO ROLE r" for item in _creating()),
        f"CREATE DATABASE {HIDDEN}",
        f"CREATE COMPUTE_POOL {HIDDEN}",
        f"CREATE SECRET {HIDDEN} WITH ('type' = generic_string, 'secret_string' = 'x')",
        f"CREATE API_TOKEN {HIDDEN} WITH ('token.role_name' = orgadmin)",
    ):
        await session.answer(text, ROOT)
    users = {}
    for user, role in (("ben@x.org", "r"), (f"{HIDDEN}@x.org", "public")):
        ((*_, code),) = await session.answer(f"INVITE USER '{user}' WITH ('roles' = ({role}))", ROOT)
        users[user] = catalog.accept_invitation(str(code), "correct horse battery")
    await session.answer("CREATE DATABASE mine", ASKED)
    await session.answer(f"CREATE SCHEMA mine.{HIDDEN}", ASKED)
    schema = catalog.schema("mine", HIDDEN)
    catalog.change_owner(schema, "sysadmin")
    for name, owner in (("own", "r"), (HIDDEN, "sysadmin")):
        catalog.create_store(Store(name, "kafka", owner, NOW, NOW, {"uris": "127.0.0.1:1"}))
    for spec, kind in (("r", "SCHEMA_REGISTRY"), ("p", "DESCRIPTOR_SOURCE"), ("u", "FUNCTION_SOURCE")):
        await session.answer(
            f"ALTER {kind} {spec} RENAME TO {HIDDEN}", Principal("admin", ("sysadmin",), "sysadmin")
        )
    await session.answer(
        f"ALTER FUNCTION again RENAME TO {HIDDEN}", Principal("admin", ("sysadmin",), "sysadmin")
    )
    for name, owner in (("own", "r"), (HIDDEN, "sysadmin"), ("watched", "sysadmin")):
        relation = Relation(
            RelationName("mine", "public", name),
            RelationKind.STREAM,
            Schema((Column("n", BIGINT),)),
            owner,
            NOW,
            NOW,
            "own" if name == "own" else HIDDEN,
            (name,),
            id=str(uuid.uuid4()),
        )
        catalog.create_relation(relation)
    view = (
        "CREATE MATERIALIZED VIEW mine.public.seen WITH ('query.name' = {}) AS SELECT n FROM mine.public.own"
    )
    await session.answer(view.format(HIDDEN) + " WITH ('starting.position' = 'earliest')", ROOT)
    session.save(HIDDEN, catalog.queries()[0])
    return session


def _creating() -> list[str]:
    return [item.value for item in Privilege if item.value.startswith("CREATE_") and item not in _INSIDE]


_INSIDE = (Privilege.CREATE_SCHEMA, Privilege.CREATE_RELATION)


async def said(session: Session, text: str) -> str:
    try:
        executed = await session.service.execute(text, principal=ASKED, context=CONTEXT)
    except HeadraceError as error:
        return f"{error.state.value} {error.message}\n{error.hint}\n{error.span}"
    assert isinstance(executed.outcome, ResultSet)
    return re.sub(r"hrt_[\w-]+", "a secret", str(executed.outcome.rows))


async def test_no_statement_distinguishes_hidden_from_missing_objects(organization: Session) -> None:
    differing = {}

    for text in statements():
        hidden = await said(organization, text.replace("{name}", HIDDEN))
        absent = await said(organization, text.replace("{name}", ABSENT))

        if hidden.replace(HIDDEN, ABSENT).replace(HIDDEN.upper(), ABSENT.upper()) != absent:
            differing[text] = (hidden, absent)

    assert not differing


async def test_a_query_of_others_is_not_named_by_what_it_stands_in_the_way_of(organization: Session) -> None:
    """The query's relation may be known, its name taken, its slot in use: errors reveal neither its id nor its other objects."""
    (query,) = organization.catalog.queries()
    await organization.answer("GRANT SELECT ON RELATION mine.public.seen TO ROLE r", ROOT)
    await organization.answer("GRANT OWNERSHIP ON RELATION mine.public.seen TO ROLE r", ROOT)
    for text, state in (
        ("STOP MATERIALIZED VIEW seen", SqlState.QUERY_NOT_FOUND),
        ("START MATERIALIZED VIEW seen", SqlState.QUERY_NOT_FOUND),
        ("DESCRIBE QUERY seen", SqlState.QUERY_NOT_FOUND),
        ("DROP MATERIALIZED VIEW seen", SqlState.DEPENDENT_OBJECTS_EXIST),
        (
            f"CREATE MATERIALIZED VIEW s WITH ('query.name' = {HIDDEN}) AS SELECT n FROM own",
            SqlState.INVALID_PARAMETER,
        ),
    ):
        answer = await said(organization, text)
        assert answer.startswith(state.value), answer
        assert query.id not in answer
    organization.catalog.set_desired_state(query.id, DesiredState.TERMINATED)
    answer = await said(organization, "CREATE MATERIALIZED VIEW s AS SELECT n FROM seen")
    assert ("was terminated" in answer, query.id in answer) == (True, False)


async def test_a_refused_cycle_names_what_the_role_may_know(organization: Session) -> None:
    catalog = organization.catalog
    (made,) = catalog.queries()
    own, theirs = (RelationName("mine", "public", name) for name in ("own", HIDDEN))
    for source, sink in ((own, theirs), (theirs, own)):
        relations = catalog.relation(source), catalog.relation(sink)
        assert all(relations)
        read, write = ((relation.store, relation.entity) for relation in relations if relation is not None)
        plan = SparkPlan(
            steps=[
                ReadEntity(id="s1", store=read[0] or "", connector="kafka", entity=read[1] or ()),
                WriteEntity(
                    id="s2", input="s1", store=write[0] or "", connector="kafka", entity=write[1] or ()
                ),
            ],
            outputs=["s2"],
        )
        query = replace(
            made, id=str(uuid.uuid4()), name=None, kind=QueryKind.INSERT_INTO, plan=plan.to_json()
        )
        query = replace(query, sink=sink, sources=(source,), sql="INSERT INTO x SELECT n FROM y")
        catalog.create_query(query)
    for query in catalog.queries():
        if query.sources == (theirs,):
            catalog.change_owner(query, "r")
            answer = await said(organization, f'RESTART QUERY "{query.id}"')
            cycle = "a query that you may not see → mine.public.own → a query that you may not see"
            assert answer.startswith(
                f"42P16 the query would read its own output, through query a query that you may not see: {cycle}"
            )


async def test_dropping_a_role_reports_that_it_owns_invisible_objects(session: Session) -> None:
    await session.answer("CREATE ROLE below", Principal("admin", ("useradmin",), "useradmin"))
    await session.answer("GRANT OWNERSHIP ON STORE k TO ROLE below", ROOT)
    with pytest.raises(HeadraceError, match="the role below owns 1 object that you may not see"):
        await session.answer("DROP ROLE below", Principal("admin", ("useradmin",), "useradmin"))
    with pytest.raises(HeadraceError, match="the role below owns the store k"):
        await session.answer("DROP ROLE below", ROOT)


def test_every_statement_that_names_something_is_tried() -> None:
    tried = {type(parse(text.replace("{name}", ABSENT))[0]).__name__ for text in statements()}
    assert tried.isdisjoint(NAMES_NOTHING_HIDDEN)
    assert tried | NAMES_NOTHING_HIDDEN == {kind.__name__ for kind in HANDLERS}
