"""Every statement: its syntax tree, and the same tree for its canonical text."""

from __future__ import annotations

import pytest

from headrace.core.names import Identifier, QualifiedName
from headrace.core.types import VARCHAR, Array, Struct, parse_type
from headrace.sql import parse
from headrace.sql.ast import Statement
from headrace.sql.dropping import DropIfExists
from headrace.sql.listing import FilteredList
from headrace.sql.statements.alert import CreateAlert, DescribeAlert, DropAlert, ListAlerts
from headrace.sql.statements.alter import ChangeOwner, DescribeAs, Rename
from headrace.sql.statements.api_token import (
    AlterApiToken,
    CreateApiToken,
    DescribeApiToken,
    DropApiToken,
    ListApiTokens,
)
from headrace.sql.statements.application import Application, CreateVirtual
from headrace.sql.statements.backup import CreateBackup
from headrace.sql.statements.compute_pool import (
    CreateComputePool,
    DescribeComputePool,
    DropComputePool,
    ListComputePools,
    StartComputePool,
    StopComputePool,
    UpdateComputePool,
)
from headrace.sql.statements.copying import CopySource
from headrace.sql.statements.database import CreateDatabase, DescribeDatabase, DropDatabase, ListDatabases
from headrace.sql.statements.descriptor_source import (
    CreateDescriptorSource,
    DescribeDescriptorSource,
    DropDescriptorSource,
    ListDescriptors,
    ListDescriptorSources,
)
from headrace.sql.statements.entity import (
    CreateEntity,
    DescribeEntity,
    DropEntity,
    InsertIntoEntity,
    ListEntities,
    ListPartitions,
    OptimizeEntity,
    PrintEntity,
    UpdateEntity,
)
from headrace.sql.statements.function import (
    CreateFunction,
    DescribeFunction,
    DropFunction,
    ListFunctions,
)
from headrace.sql.statements.function_source import (
    CreateFunctionSource,
    DescribeFunctionSource,
    DropFunctionSource,
    ListFunctionSources,
)
from headrace.sql.statements.generate import GenerateColumns, GenerateDdl, GenerateTemplate
from headrace.sql.statements.grant import (
    GrantFuture,
    GrantOwnership,
    GrantPrivileges,
    GrantRole,
    ListFutureGrants,
    ListGrants,
    RevokeFuture,
    RevokePrivileges,
    RevokeRole,
)
from headrace.sql.statements.organization import (
    DescribeOrganization,
    ListOrganizations,
    RenameOrganization,
    UpdateOrganization,
)
from headrace.sql.statements.privilege import CanI
from headrace.sql.statements.query import (
    DescribeQuery,
    Explain,
    ExplainWhy,
    InsertInto,
    InsertValues,
    ListQueries,
    ReplaceQuery,
    RestartQuery,
    RollBackQuery,
    SelectStatement,
    TerminateQuery,
)
from headrace.sql.statements.relation import (
    CreateRelation,
    CreateRelationAs,
    CreateView,
    DescribeRelation,
    DropRelation,
    ListRelations,
    ReplaceRelation,
    StartRelation,
    StopRelation,
)
from headrace.sql.statements.role import CreateRole, DescribeRole, DropRole, ListRoles
from headrace.sql.statements.savepoint import (
    CreateSavepoint,
    DescribeSavepoint,
    DropSavepoint,
    ImportSavepoint,
    ListSavepoints,
)
from headrace.sql.statements.schema import CreateSchema, DescribeSchema, DropSchema, ListSchemas, ManageAccess
from headrace.sql.statements.schema_registry import (
    CreateSchemaRegistry,
    DescribeSchemaRegistry,
    DropSchemaRegistry,
    ListSchemaRegistries,
    UpdateSchemaRegistry,
)
from headrace.sql.statements.secret import (
    CreateSecret,
    DescribeSecret,
    DropSecret,
    ListSecrets,
    RotateKey,
    UpdateSecret,
)
from headrace.sql.statements.session import SetDefault, Use
from headrace.sql.statements.store import (
    CheckStore,
    CreateStore,
    DescribeStore,
    DropStore,
    ListStores,
    UpdateStore,
)
from headrace.sql.statements.user import (
    AlterUser,
    DescribeUser,
    DropUser,
    InviteUser,
    ListInvitations,
    ListUsers,
    RevokeInvitation,
)

QUERY_ID = "0b7c1a2b-0e5d-4c6e-9b12-1e5d0000000f"

STATEMENTS = [
    ("INVITE USER 'Anna@x.org' WITH ('roles' = (sysadmin, \"Role 2\"), 'default' = sysadmin)", InviteUser),
    ("ALTER USER admin SET PASSWORD 'a ''quoted'' one'", AlterUser),
    ("DROP USER 'anna@x.org'", DropUser),
    ("DESCRIBE USER Admin", DescribeUser),
    ("LIST USERS", ListUsers),
    ("LIST INVITATIONS", ListInvitations),
    (f"REVOKE INVITATION {QUERY_ID}", RevokeInvitation),
    (f"REVOKE INVITATION '{QUERY_ID}'", RevokeInvitation),
    ("create api_token Ci with ('token.role_name' = sysadmin, 'token.expires_in_days' = 30)", CreateApiToken),
    ("ALTER API_TOKEN ci", AlterApiToken),
    ("ALTER API_TOKEN ci WITH ('token.expires_in_days' = 30)", AlterApiToken),
    ("DROP API_TOKEN ci", DropApiToken),
    ("DESCRIBE API_TOKEN ci", DescribeApiToken),
    ("SHOW API_TOKENS", ListApiTokens),
    ("create store lake with ('type' = KAFKA, 'uris' = 'a:9092')", CreateStore),
    ("CREATE STORE IF NOT EXISTS \"Lake 东\" WITH ('type' = 'KAFKA')", CreateStore),
    ("UPDATE STORE lake WITH ('uris' = 'b:9092', 'kafka.sasl.username' = NULL)", UpdateStore),
    ("DROP STORE lake", DropStore),
    ("drop store lake cascade", DropStore),
    ("DROP STORE lake RESTRICT", DropStore),
    ("DROP DATABASE d CASCADE", DropDatabase),
    ("DROP SCHEMA d.s CASCADE", DropSchema),
    ("DROP SCHEMA_REGISTRY r CASCADE", DropSchemaRegistry),
    ("DROP MATERIALIZED VIEW d.s.v CASCADE", DropRelation),
    ("CREATE SCHEMA_REGISTRY r WITH ('type' = CONFLUENT, 'uris' = 'http://r:8081')", CreateSchemaRegistry),
    ("CREATE SCHEMA_REGISTRY IF NOT EXISTS \"R\" WITH ('type' = CONFLUENT_CLOUD)", CreateSchemaRegistry),
    ("update schema_registry r with ('confluent.password' = null)", UpdateSchemaRegistry),
    ("DROP SCHEMA_REGISTRY r", DropSchemaRegistry),
    ("DESCRIBE SCHEMA_REGISTRY r", DescribeSchemaRegistry),
    ("SHOW SCHEMA_REGISTRIES", ListSchemaRegistries),
    ("CREATE DESCRIPTOR_SOURCE p WITH ('file' = '@/x/p.desc', 'description' = 'd')", CreateDescriptorSource),
    ("create descriptor_source if not exists \"P\" from '@p.desc'", CreateDescriptorSource),
    ("DROP DESCRIPTOR_SOURCE p", DropDescriptorSource),
    ("DESCRIBE DESCRIPTOR_SOURCE p", DescribeDescriptorSource),
    ("LIST DESCRIPTOR_SOURCES", ListDescriptorSources),
    ("SHOW DESCRIPTORS", ListDescriptors),
    ("DESCRIBE STORE lake", DescribeStore),
    ("LIST STORES", ListStores),
    ("SHOW STORES", ListStores),
    ("CREATE ENTITY rides IN STORE lake WITH ('kafka.partitions' = 3)", CreateEntity),
    ('CREATE ENTITY "a"."b"."c"."D"', CreateEntity),
    ("DROP ENTITY rides IN STORE lake", DropEntity),
    ("DESCRIBE ENTITY rides", DescribeEntity),
    ("UPDATE ENTITY a.b IN STORE s WITH ('kafka.partitions' = 3)", UpdateEntity),
    ("OPTIMIZE ENTITY a.b IN STORE s WITH ('iceberg.snapshot.retention.ms' = 0)", OptimizeEntity),
    ("LIST ENTITIES", ListEntities),
    ('LIST ENTITIES IN "shop"."public" IN STORE lake', ListEntities),
    ("LIST ENTITIES IN STORE lake", ListEntities),
    ('LIST ENTITIES IN "store"', ListEntities),
    ("LIST PARTITIONS IN rides IN STORE lake", ListPartitions),
    ("PRINT ENTITY rides IN STORE lake WITH ('from_beginning')", PrintEntity),
    (
        "INSERT INTO ENTITY rides IN STORE lake VALUE('{\"a\": \"it''s\"}') WITH ('key' = 'k')",
        InsertIntoEntity,
    ),
    ("CREATE DATABASE IF NOT EXISTS city", CreateDatabase),
    ("DROP DATABASE city", DropDatabase),
    ("DESCRIBE DATABASE city", DescribeDatabase),
    ("LIST DATABASES", ListDatabases),
    ('CREATE SCHEMA "s" IN DATABASE "d"', CreateSchema),
    ("CREATE SCHEMA d.s", CreateSchema),
    ("DROP SCHEMA d.s", DropSchema),
    ("DESCRIBE SCHEMA s", DescribeSchema),
    ("LIST SCHEMAS", ListSchemas),
    ("SHOW SCHEMAS IN DATABASE d", ListSchemas),
    ("USE DATABASE d", Use),
    ("USE SCHEMA d.s", Use),
    (f"USE ORGANIZATION {QUERY_ID}", Use),
    ("USE COMPUTE_POOL main", Use),
    ("set default schema d.s", SetDefault),
    ('SET DEFAULT ROLE "Analyst"', SetDefault),
    ("CREATE STREAM s (a BIGINT, `B c` VARCHAR NOT NULL) WITH ('value.format' = json)", CreateRelation),
    ("CREATE CHANGELOG c (a BIGINT, b INT, PRIMARY KEY (b, a)) WITH ('topic' = 't')", CreateRelation),
    ("CREATE STREAM s WITH ('value.format' = AVRO)", CreateRelation),
    ("CREATE TABLE IF NOT EXISTS t (a DECIMAL(4, 2)) WITH ('store' = 'pg')", CreateRelation),
    ("CREATE STREAM a.b.s WITH ('topic' = 't') AS SELECT * FROM r", CreateRelationAs),
    ("CREATE MATERIALIZED VIEW IF NOT EXISTS m AS SELECT a FROM r", CreateRelationAs),
    ("create changelog c as select a, max(b) as b from r group by a", CreateRelationAs),
    ("CREATE TABLE t AS SELECT a FROM r WHERE a = 1 WITH ('store' = 'pg')", CreateRelationAs),
    ('DROP Relation "a"."b"."c"', DropRelation),
    ("DROP MATERIALIZED VIEW m", DropRelation),
    ("CREATE VIEW IF NOT EXISTS d.s.v AS SELECT a FROM r", CreateView),
    ("DROP VIEW v CASCADE", DropRelation),
    ("DESCRIBE VIEW v", DescribeRelation),
    ("LIST VIEWS IN SCHEMA d.s", ListRelations),
    ("ALTER VIEW v RENAME TO w", Rename),
    ("GRANT SELECT ON VIEW v TO ROLE r", GrantPrivileges),
    ("DESCRIBE RELATION a.b.c", DescribeRelation),
    ("DESCRIBE RELATION COLUMNS a.b.c", DescribeRelation),
    ("DESCRIBE RELATION columns", DescribeRelation),
    ("DESCRIBE CHANGELOG c", DescribeRelation),
    ("LIST RELATIONS", ListRelations),
    ("SHOW RELATIONS IN SCHEMA d.s", ListRelations),
    ("LIST MATERIALIZED VIEWS", ListRelations),
    ("LIST STREAMS", ListRelations),
    ("INSERT INTO d.s.r WITH ('kafka.producer.linger.ms' = '100') SELECT a FROM x", InsertInto),
    ('INSERT INTO "entity" SELECT a FROM x', InsertInto),
    ("INSERT INTO d.s.r VALUES (1, 'a''b', NULL), (2 + 1, UPPER('x'), DATE '2026-01-01')", InsertValues),
    ('INSERT INTO "entity" (a, "B") VALUES (ARRAY[1, 2], -1)', InsertValues),
    ("SELECT 1 AS one", SelectStatement),
    ("WITH x AS (SELECT 1 AS a) SELECT a FROM x", SelectStatement),
    ("LIST QUERIES", ListQueries),
    ("generate stream ddl a.b.s with ('topic' = 't', 'value.format' = AVRO)", GenerateDdl),
    ("GENERATE CHANGELOG DDL c WITH ('value.format' = 'avro')", GenerateDdl),
    ("generate template create store Kafka", GenerateTemplate),
    ("GENERATE TEMPLATE FOR SHOW MATERIALIZED VIEWS", GenerateTemplate),
    ("GENERATE COLUMNS WITH ('topic' = 't', 'value.format' = AVRO)", GenerateColumns),
    ("LIST STORES WHERE type = 'x'", FilteredList),
    ("LIST STORES LIKE 'it''s%'", FilteredList),
    ("show queries like '%' where state = 'x' limit 10", FilteredList),
    ("DESCRIBE SECRET s LIMIT 0", FilteredList),
    ("DESCRIBE QUERY EVENTS q WHERE state = 'errored'", FilteredList),
    (
        "SHOW STREAMS IN SCHEMA d.s WHERE \"Name\" NOT LIKE '%''s' AND is_default != TRUE AND n = 4",
        FilteredList,
    ),
    (f"DESCRIBE QUERY {QUERY_ID}", DescribeQuery),
    (f"DESCRIBE QUERY HISTORY {QUERY_ID}", DescribeQuery),
    ("DESCRIBE QUERY METRICS my_query", DescribeQuery),
    ("DESCRIBE QUERY state", DescribeQuery),
    (f"TERMINATE QUERY {QUERY_ID.upper()}", TerminateQuery),
    ('START STREAM "x"', StartRelation),
    ('GRANT "When" ON RELATION a TO ROLE r', GrantPrivileges),
    ("stop materialized view a.b.c", StopRelation),
    ('TERMINATE QUERY "My query"', TerminateQuery),
    (f"RESTART QUERY {QUERY_ID}", RestartQuery),
    (f"ALTER QUERY {QUERY_ID} AS SELECT a FROM r QUERY WITH ('state.ttl.millis' = 5)", ReplaceQuery),
    ('alter query d."Q" as with x as (select a from r) select a from x', ReplaceQuery),
    ("ALTER QUERY q ROLLBACK TO VERSION 12", RollBackQuery),
    ("TERMINATE QUERY q WITH SAVEPOINT s", TerminateQuery),
    ("CREATE BACKUP", CreateBackup),
    (f"CREATE SAVEPOINT s ON QUERY {QUERY_ID}", CreateSavepoint),
    ('create savepoint if not exists "S" on query d.public."Q"', CreateSavepoint),
    (f"CREATE SAVEPOINT IF NOT EXISTS s FROM '{QUERY_ID}'", ImportSavepoint),
    ("CREATE ALERT a ON QUERY q WHEN errored, lag_grows WITH ('url' = 'https://h/x')", CreateAlert),
    ("CREATE ALERT IF NOT EXISTS a ON ORGANIZATION WITH ('url' = 'https://h/x', 'token' = 't')", CreateAlert),
    ("DROP ALERT a", DropAlert),
    ("DESCRIBE ALERT a", DescribeAlert),
    ("LIST ALERTS", ListAlerts),
    ("ALTER ALERT a RENAME TO b", Rename),
    ("CREATE SAVEPOINT s ON QUERY q WITH ('retention.days' = 7)", CreateSavepoint),
    ("DROP SAVEPOINT s", DropSavepoint),
    ("DESCRIBE SAVEPOINT s", DescribeSavepoint),
    ("LIST SAVEPOINTS", ListSavepoints),
    ("ALTER SAVEPOINT s RENAME TO t", Rename),
    ("GRANT USAGE ON SAVEPOINT s TO ROLE r", GrantPrivileges),
    ("CREATE OR REPLACE STREAM s WITH ('topic' = 't') AS SELECT a FROM r", ReplaceRelation),
    (
        "create or replace materialized view d.public.v AS select a from r query with ('query.name' = q)",
        ReplaceRelation,
    ),
    ("EXPLAIN CREATE OR REPLACE CHANGELOG c AS SELECT a FROM r", Explain),
    ("EXPLAIN WHY sales", ExplainWhy),
    (f"explain why query {QUERY_ID}", ExplainWhy),
    ("EXPLAIN WHY QUERY", ExplainWhy),
    ("EXPLAIN ALTER QUERY q AS SELECT a FROM r", Explain),
    ("EXPLAIN SELECT a FROM r", Explain),
    ("EXPLAIN VERBOSE INSERT INTO r SELECT a FROM x", Explain),
    ("DESCRIBE CREATE STREAM s AS SELECT a FROM r", Explain),
    (
        "create compute_pool p with ('compute_pool.size' = 'small', 'compute_pool.timeout_min' = 5)",
        CreateComputePool,
    ),
    ('CREATE COMPUTE_POOL IF NOT EXISTS "P"', CreateComputePool),
    (
        "UPDATE COMPUTE_POOL p WITH ('compute_pool.size' = large, 'compute_pool.timeout_min' = NULL)",
        UpdateComputePool,
    ),
    ("START COMPUTE_POOL p", StartComputePool),
    ("STOP COMPUTE_POOL p", StopComputePool),
    ("DROP COMPUTE_POOL p CASCADE", DropComputePool),
    (
        'begin application "A b" use schema d.s; CREATE VIRTUAL STREAM virtual.public.x AS SELECT CASE WHEN a THEN 1 END application '
        "FROM r; insert into s SELECT application FROM virtual.public.x END APPLICATION WITH ('state.ttl.millis' = 10)",
        Application,
    ),
    ("EXPLAIN BEGIN APPLICATION a CREATE STREAM s (x INT) WITH ('topic' = 't'); END APPLICATION", Explain),
    ("DESCRIBE BEGIN APPLICATION a; CREATE STREAM s AS SELECT x FROM r; END APPLICATION", Explain),
    (
        'CREATE VIRTUAL CHANGELOG virtual.public."X" AS SELECT a, count(*) AS n FROM r GROUP BY a',
        CreateVirtual,
    ),
    ("LIST COMPUTE_POOLS", ListComputePools),
    ("DESCRIBE COMPUTE_POOL main", DescribeComputePool),
    ("LIST ORGANIZATIONS", ListOrganizations),
    ("DESCRIBE ORGANIZATION", DescribeOrganization),
    (f"describe organization {QUERY_ID}", DescribeOrganization),
    (
        "UPDATE ORGANIZATION \"My o\" WITH ('description' = 'x', 'profile_image_uri' = NULL)",
        UpdateOrganization,
    ),
    ('ALTER ORGANIZATION o RENAME TO "P"', RenameOrganization),
    ("ALTER ROLE r OWNER TO s", ChangeOwner),
    ("DESCRIBE ORGANIZATION LIMIT 1", FilteredList),
    ("LIST ROLES", ListRoles),
    ("CREATE ROLE r", CreateRole),
    ('create role if not exists "R" with (in role (a, b))', CreateRole),
    ("DROP ROLE r", DropRole),
    ("DESCRIBE ROLE r", DescribeRole),
    ("GRANT CREATE_STORE, CREATE_QUERY ON ORGANIZATION TO ROLE r WITH GRANT OPTION", GrantPrivileges),
    ("GRANT ALL PRIVILEGES ON SCHEMA a.b TO ROLE r, s", GrantPrivileges),
    ("GRANT SELECT ON STREAM a.b.c TO ROLE r", GrantPrivileges),
    ("GRANT SELECT, INSERT ON FUTURE RELATIONS IN SCHEMA a.b TO ROLE r, s WITH GRANT OPTION", GrantFuture),
    ("REVOKE ALL PRIVILEGES ON FUTURE RELATIONS IN DATABASE a FROM ROLE r", RevokeFuture),
    ("GRANT USAGE ON FUTURE QUERIES IN ORGANIZATION TO ROLE r", GrantFuture),
    ("REVOKE USAGE ON FUTURE SCHEMA_REGISTRIES IN ORGANIZATION FROM ROLE r", RevokeFuture),
    ("GRANT USAGE ON FUTURE SCHEMAS IN DATABASE a TO ROLE r", GrantFuture),
    ("LIST FUTURE GRANTS IN ORGANIZATION", ListFutureGrants),
    ("ALTER SCHEMA a.b ENABLE MANAGED ACCESS", ManageAccess),
    ("ALTER SCHEMA b DISABLE MANAGED ACCESS", ManageAccess),
    ("LIST FUTURE GRANTS IN SCHEMA a.b", ListFutureGrants),
    ("LIST FUTURE GRANTS TO ROLE r", ListFutureGrants),
    ("CREATE SCHEMA a.b WITH MANAGED ACCESS", CreateSchema),
    ("REVOKE ALL ON QUERY 6f3c0e5a-1111-4222-8333-444455556666 FROM ROLE r", RevokePrivileges),
    ("REVOKE GRANT OPTION FOR USAGE ON DATABASE d FROM ROLE r CASCADE", RevokePrivileges),
    ("GRANT OWNERSHIP ON ROLE r TO ROLE s", GrantOwnership),
    ("GRANT ROLE r TO ROLE s", GrantRole),
    ("GRANT ROLE r TO USER 'a@example.com'", GrantRole),
    ("REVOKE ROLE r FROM USER anna", RevokeRole),
    ("LIST GRANTS", ListGrants),
    ("LIST GRANTS ON ORGANIZATION", ListGrants),
    ("LIST GRANTS ON RELATION a.b.c", ListGrants),
    ("LIST GRANTS TO ROLE r", ListGrants),
    ("LIST GRANTS OF ROLE r", ListGrants),
    ("ALTER RELATION mv SET description = 'it''s\nours'", DescribeAs),
    ("alter materialized view a.b set Description = null", DescribeAs),
    ("ALTER STREAM a OWNER TO sysadmin", ChangeOwner),
    ("CREATE SECRET \"a b\" WITH( 'type' = generic_string, 'secret_string' = 'x' )", CreateSecret),
    ("create secret if not exists s with ('type' = 'generic_string')", CreateSecret),
    ("UPDATE SECRET s WITH ('k' = NULL, 'secret_string' = 'y')", UpdateSecret),
    ("DROP SECRET s CASCADE", DropSecret),
    ("DESCRIBE SECRET s", DescribeSecret),
    ("CREATE FUNCTION_SOURCE \"Fs\" WITH ('file' = '@/x/f.jar', 'description' = 'd')", CreateFunctionSource),
    ("create function_source if not exists f from '@f.jar'", CreateFunctionSource),
    ("DROP FUNCTION_SOURCE f CASCADE", DropFunctionSource),
    ("DESCRIBE FUNCTION_SOURCE f", DescribeFunctionSource),
    ("SHOW FUNCTION_SOURCES", ListFunctionSources),
    (
        "create function f(a VARCHAR, \"B c\" STRUCT<x INT>) returns DECIMAL(4, 2) language JAVA with ('source.name' = s)",
        CreateFunction,
    ),
    (
        "CREATE FUNCTION IF NOT EXISTS \"F(\"() RETURNS BIGINT LANGUAGE JAVA WITH ('class.name' = 'A')",
        CreateFunction,
    ),
    (
        "create function f(a INT) returns TABLE (\"B c\" VARCHAR, d BIGINT) language PYTHON as $$ def f(a): yield 'it''s; $', a $$",
        CreateFunction,
    ),
    (
        "CREATE FUNCTION f() RETURNS STRUCT<x INT> LANGUAGE PYTHON AS 'class F: pass' WITH ('handler' = 'F')",
        CreateFunction,
    ),
    (
        "CREATE FUNCTION f() RETURNS INT LANGUAGE PYTHON WITH ('source.name' = 's', 'handler' = 'm.f')",
        CreateFunction,
    ),
    ("DROP FUNCTION f", DropFunction),
    ('DROP FUNCTION "F("()', DropFunction),
    ("drop function f(a VARCHAR, TIMESTAMP WITH LOCAL TIME ZONE, ARRAY<INT>) cascade", DropFunction),
    ("DROP FUNCTION IF EXISTS f(BIGINT)", DropIfExists),
    ("DESCRIBE FUNCTION f(DECIMAL(4, 2), x MAP<INT, INT>)", DescribeFunction),
    ("LIST FUNCTIONS", ListFunctions),
    ("GRANT USAGE ON FUNCTION f(BIGINT) TO ROLE r", GrantPrivileges),
    ("CAN I USAGE ON FUNCTION f(a BIGINT)", CanI),
    ('ALTER FUNCTION f(BIGINT) RENAME TO "G"', Rename),
    ("ALTER FUNCTION_SOURCE f OWNER TO r", ChangeOwner),
    ("COPY FUNCTION_SOURCE f TO '@/x/f.jar'", CopySource),
    ("copy descriptor_source \"P\" to 'it''s.desc'", CopySource),
    ("LIST SECRETS", ListSecrets),
    ("ROTATE KEY", RotateKey),
    ("CREATE STORE s WITH ('kafka.sasl.password' = SECRET \"a b\", 'type' = secret)", CreateStore),
    ("ALTER SCHEMA d.s OWNER TO sysadmin", ChangeOwner),
    ('alter store "S 1" rename to s', Rename),
    ('ALTER MATERIALIZED VIEW a.b.c RENAME TO "D"', Rename),
    ("ALTER QUERY 0d1f6e7c-8e55-4f1a-9a3b-0123456789ab RENAME TO q", Rename),
    ("DROP STREAM IF EXISTS a.b", DropIfExists),
    ('drop materialized view if exists "A b" cascade', DropIfExists),
    ("DROP DATABASE IF EXISTS d RESTRICT", DropIfExists),
    ("DROP DESCRIPTOR_SOURCE IF EXISTS s", DropIfExists),
    ("TEST STORE k", CheckStore),
    ("TEST FUNCTION f(1, 'a')", SelectStatement),
    ('test function "F g"()', SelectStatement),
    ("SELECT a & 3 | ~b ^ c << 2 >> d || 'x' FROM t WHERE a & 1 = 1", SelectStatement),
    ("CAN I CREATE_QUERY", CanI),
    ("CAN ROLE analyst CREATE_QUERY", CanI),
    ('CAN ROLE "A b" SELECT ON RELATION a.b.c', CanI),
    ("can i usage on organization", CanI),
    ("CAN I USAGE ON QUERY 6f3c0e5a-1111-4222-8333-444455556666", CanI),
    ('CAN I SELECT ON RELATION "a".b."C d"', CanI),
]


def read(text: str) -> Statement:
    [statement] = parse(text)
    return statement


@pytest.mark.parametrize(("text", "kind"), STATEMENTS, ids=[text for text, _ in STATEMENTS])
def test_a_statement_reads_and_its_canonical_text_reads_to_the_same(text: str, kind: type[Statement]) -> None:
    statement = read(text)
    assert type(statement) is kind
    assert (statement.span.start, statement.span.end, statement.text) == (0, len(text), text)
    again = read(statement.sql())
    assert again == statement
    assert again.sql() == statement.sql()


def test_every_statement_with_a_grammar_is_tested() -> None:
    def leaves(kind: type[Statement]) -> set[type[Statement]]:
        return {kind, *(leaf for sub in kind.__subclasses__() for leaf in leaves(sub))}

    kinds = {leaf for kind in Statement.__subclasses__() for leaf in leaves(kind)}
    assert {kind for kind in kinds if kind.__module__.startswith("headrace")} == {
        kind for _, kind in STATEMENTS
    }


def test_text_without_statements_gives_none() -> None:
    assert parse("") == []
    assert parse(" \n; ; -- nothing\n/* ; */ ;") == []


def test_a_batch_keeps_the_places_of_its_statements() -> None:
    text = "-- first\nLIST STORES;\n\n  LIST 'x';"
    with pytest.raises(Exception, match="after LIST") as caught:
        parse(text)
    assert caught.value.span.line == 4  # type: ignore[attr-defined]
    first, second = parse("LIST STORES;\n LIST ROLES")
    assert (first.text, second.text) == ("LIST STORES", "LIST ROLES")
    assert (second.span.start, second.span.line, second.span.column) == (14, 2, 2)


def test_the_fields_of_a_definition() -> None:
    statement = read(
        """CREATE CHANGELOG City."Riders" ( -- the people
             "time" VARCHAR NOT NULL, /* nested */ "data" STRUCT< "User-Agent" ARRAY<VARCHAR>, Zip INT >,
             PRIMARY KEY("time") ) WITH ('topic' = t, 'timestamp' = "time", 'x' = -5, 'y' = true, 'z')"""
    )
    assert isinstance(statement, CreateRelation)
    assert statement.kind == "CHANGELOG"
    assert statement.name == QualifiedName((Identifier("city"), Identifier("Riders")))
    time, data = statement.columns
    assert (time.name.name, time.type, time.nullable) == ("time", VARCHAR, False)
    assert data.type == Struct((("User-Agent", Array(VARCHAR)), ("zip", parse_type("INTEGER"))))
    assert statement.primary_key == (Identifier("time"),)
    assert statement.properties.items() == [
        ("topic", "t"),
        ("timestamp", "time"),
        ("x", "-5"),
        ("y", "true"),
        ("z", None),
    ]
    place = statement.properties.span("y")
    assert place is not None
    assert place.line == 3


def test_the_value_of_a_property_may_be_a_name_of_several_parts() -> None:
    statement = read(
        """CREATE ENTITY e WITH ('value.descriptor' = src.pkg.Msg, 'key.descriptor' = "Src" . "Key 1")"""
    )
    assert isinstance(statement, CreateEntity)
    assert statement.properties.items() == [
        ("value.descriptor", "src.pkg.Msg"),
        ("key.descriptor", "Src.Key 1"),
    ]


def test_query_properties_and_partitioning_follow_the_query() -> None:
    statement = read(
        "INSERT INTO r SELECT a FROM x PARTITION BY a, \"B\" QUERY WITH ('query.name' = My_Query)"
    )
    assert isinstance(statement, InsertInto)
    assert statement.select.partition_by == (Identifier("a"), Identifier("B"))
    assert statement.select.query_properties.get("query.name") == "My_Query"


def test_an_explained_statement_has_its_own_place() -> None:
    statement = read("EXPLAIN VERBOSE SELECT a FROM r")
    assert isinstance(statement, Explain)
    assert statement.statement.text == "SELECT a FROM r"
    assert statement.statement.span.start == 16


def test_a_query_reference_is_folded_unless_quoted() -> None:
    assert read(f"TERMINATE QUERY {QUERY_ID.upper()}") == read(f"TERMINATE QUERY '{QUERY_ID}'")
    assert read("TERMINATE QUERY Mine") == read('TERMINATE QUERY "mine"')
    assert read("TERMINATE QUERY Mine") != read('TERMINATE QUERY "Mine"')
    assert read("TERMINATE QUERY shop.Public.sink").sql() == "TERMINATE QUERY shop.public.sink"
