"""Syntax errors: their messages and positions (marked ‸ before and after)."""

from __future__ import annotations

import pytest

from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.sql import parse
from headrace.sql.diagnostics import shown

MARK = "‸"
SYNTAX = [
    ("SELECT a ‸FORM‸ t", "expected a clause such as FROM, found 'FORM'"),
    ("SELECT a FROM orders ‸)‸", "expected ',', a clause or the end of the query, found ')'"),
    ("SELECT * ‸FORM‸ t", "expected ',', a clause or the end of the query, found 'FORM'"),
    ("SELECT a FROM t ‸WEHRE‸ b = 1", "expected a clause such as WHERE, found 'WEHRE'"),
    ("SELECT a, ‸FROM‸ t", "expected an expression after ',', found 'FROM'"),
    ("SELECT ‸FROM‸ t", "expected an expression, found 'FROM'"),
    ("SELECT a FROM t WHERE‸‸", "expected an expression, found the end of the statement"),
    ("SELECT a FROM t WHERE x =‸‸", "expected an expression, found the end of the statement"),
    (
        "SELECT a FROM t JOIN b‸‸",
        "expected ON and the join's condition, or USING and columns, found the end of the statement",
    ),
    ("SELECT a FROM t WITH ('b'='c') ‸AS‸ d", "expected the alias before WITH (…), found 'AS'"),
    ("SELECT f(a ‸FROM‸ t", "expected ',' or ')' in the arguments of f, found 'FROM'"),
    ("SELECT sum(a) ‸FILTER‸ w FROM t", "expected ',', a clause or the end of the query, found 'FILTER'"),
    ("SELECT a FROM t LIMIT ‸'x'‸", "expected a whole number after LIMIT, found a string"),
    ("SELECT a FROM t WHERE a BETWEEN 1 ‸2‸", "expected AND and the upper bound, found '2'"),
    ("SELECT CASE WHEN a ‸1‸ END FROM t", "expected THEN, found '1'"),
    (
        "SELECT a IS ‸5‸ FROM t",
        "expected NULL, TRUE, FALSE, UNKNOWN, JSON or DISTINCT FROM after IS, found '5'",
    ),
    ("SELECT a -> ‸FROM‸ t", "expected the name of a field after '->', found 'FROM'"),
    ("SELECT ‸5‸abc FROM t", "expected a number, found '5abc'"),
    ("SELECT a AS ‸'b'‸ FROM t", "expected a name after AS, found a string"),
    ("SELECT * FROM TUMBLE(t, ‸5‸ MINUTES)", "expected SIZE and a time span such as 5 MINUTES, found '5'"),
    ("SELECT * FROM TUMBLE(t, SIZE ‸0‸ MINUTES)", "expected a time span longer than zero, found '0'"),
    ("SELECT CAST(a AS ‸STRUCT<x FOO>‸) FROM t", "unknown data type FOO"),
    ("LIST STORES;\n  SELECT a\n FROM t ‸)‸", "expected ',', a clause or the end of the query, found ')'"),
    ("CREATE STREAM s (a ‸FOO‸) WITH ('a'='b')", "unknown data type FOO"),
    ("CREATE STREAM s (a INT, ‸A‸ INT) WITH ('a'='b')", "the column a is declared twice"),
    (
        "CREATE STREAM s (a INT ‸b‸ INT) WITH ('a'='b')",
        "expected NOT NULL, ',' or ')' after a column, found 'b'",
    ),
    ("CREATE STREAM s‸‸", "expected columns in parentheses, WITH or AS, found the end of the statement"),
    ("CREATE STORE s WITH (‸type‸ = KAFKA)", "expected a property name in single quotes, found 'type'"),
    (
        "CREATE STORE s WITH ('type' = KAFKA‸‸",
        "expected ',' or ')' after a property, found the end of the statement",
    ),
    ("CREATE STORE s WITH ('a' = 1, ‸'a' = 2‸)", "the property 'a' is specified twice"),
    ("CREATE STORE ‸'s'‸ WITH ('a' = 1)", "expected the name of the store, found a string"),
    ("SELECT ‸'‸abc", "expected ' at the end of the string that starts here, found the end of the text"),
    ('SELECT ‸"‸abc', 'expected " at the end of the quoted name that starts here, found the end of the text'),
    ("SELECT a ‸/*‸ b", "expected */ at the end of the comment that starts here, found the end of the text"),
    ("SELECT a‸@‸b FROM t", "unexpected character '@'"),
    ("SELECT a ‸#‸ b FROM t", "unexpected character '#'"),
    ("SELECT a & ‸FROM‸ t", "expected an expression, found 'FROM'"),
    ("SELECT ~ ‸FROM‸ t", "expected an expression, found 'FROM'"),
    ("SELECT X‸'0f0'‸ FROM t", "expected pairs of hexadecimal digits"),
    ("TEST FUNCTION ‸1‸ + 2", "expected the call of a function, found '1'"),
    ("GRANT SELECT ON RELATION r TO ‸public‸", "expected ROLE, found 'public'"),
    ("LIST STORES ‸foo‸", "expected the end of the statement, found 'foo'"),
    (
        "ALTER QUERY q ‸SET‸ description = 'x'",
        "expected RENAME TO name, OWNER TO role, AS SELECT … or ROLLBACK TO VERSION number, found 'SET'",
    ),
    (
        "CREATE ENTITY e WITH ('value.descriptor' = src.‸'Msg'‸)",
        "expected a further part of the name, found a string",
    ),
    ("‸FROBNICATE‸ x", "expected a statement, found 'FROBNICATE'"),
    ("‸a‸ + b", "expected a statement, found 'a'"),
    ("SELECT * FROM (VALUES (1), (‸1‸, 2)) AS t", "this row of VALUES has 2 values, the first has 1"),
    ("INSERT INTO t VALUES ‸1‸", "expected '(' and the values of a row, found '1'"),
    ("INSERT INTO t (a) ‸5‸", "expected SELECT, found '5'"),
    ("INSERT INTO t WITH ('a' = 'b') ‸VALUES‸ (1)", "expected SELECT, found 'VALUES'"),
    ("INSERT INTO ENTITY e ‸VALUES‸('{}')", "expected VALUE, found 'VALUES'"),
    ("CREATE TABLE t (a INT) WITH ('a'='b') ‸AS‸ SELECT 1", "expected the end of the statement, found 'AS'"),
    ("USE DATABASE ‸a.b‸", "expected the name of the database of at most 1 parts, found 2: a.b"),
    ("BEGIN APPLICATION x ‸SELECT 1‸; END APPLICATION;", "SELECT is not allowed in an application"),
    ("BEGIN APPLICATION x; ‸DROP STORE s‸; END APPLICATION;", "DROP STORE is not allowed in an application"),
    ("BEGIN APPLICATION x; ‸USE ROLE r‸ END APPLICATION;", "USE ROLE is not allowed in an application"),
    ("BEGIN APPLICATION x ‸END‸ APPLICATION;", "expected a statement, found 'END'"),
    (
        "BEGIN APPLICATION x USE STORE s; INSERT ‸INTI‸ t SELECT 1; END APPLICATION",
        "expected one of INTO, INTO ENTITY after INSERT, found 'INTI'",
    ),
    ("BEGIN APPLICATION x USE STORE s;‸‸", "expected END APPLICATION, found the end of the statement"),
    (
        "BEGIN APPLICATION x CREATE VIRTUAL STREAM ‸a.b‸ AS SELECT 1; END APPLICATION",
        "expected a name in the database virtual, found a.b",
    ),
    (
        "SELECT listagg(a) WITHIN ‸GROUP‸ (ORDER BY a) FROM t",
        "expected ',', a clause or the end of the query, found 'GROUP'",
    ),
    (
        "SELECT rank() OVER (ORDER BY a) ‸OVER‸ (ORDER BY b) FROM t",
        "expected one OVER for each call, found 'OVER'",
    ),
    (
        "CREATE STREAM s AS SELECT a FROM t WHERE a > 1 WITH (‸'starting.position' = 'earliest'‸)",
        "'starting.position' after the query would be a property of the new relation, not of a source",
    ),
    (
        "CREATE VIRTUAL STREAM virtual.public.b ‸WITH‸ ('a' = 1) AS SELECT 1",
        "expected AS and a query, found 'WITH'",
    ),
]
NOT_SUPPORTED = [
    ("DROP ENTITY ‸IF EXISTS‸ s", "IF EXISTS of an entity"),
    (
        "SELECT a FROM t MATCH_RECOGNIZE (ORDER BY y ALL ROWS PER MATCH ‸WITH UNMATCHED ROWS‸ PATTERN (b))",
        "WITH UNMATCHED ROWS",
    ),
    ("‸UPDATE FUNCTION_SOURCE‸ x WITH ('file' = '@x')", "UPDATE FUNCTION_SOURCE"),
    ("‸ALTER SECURITY INTEGRATION‸ s OWNER TO r", "ALTER SECURITY INTEGRATION"),
    ("ALTER QUERY q ‸ADD TAG‸ 'team' = 'ingest'", "ALTER QUERY … ADD TAG"),
    ("‸CREATE SECURITY INTEGRATION‸ x", "CREATE SECURITY INTEGRATION"),
    ("‸ACCEPT INVITATION‸ x", "ACCEPT INVITATION"),
    ("SELECT sum(a) OVER (ORDER) ‸FROM‸ t", "a window that extends a named window"),
    ("SELECT a FROM t x ‸LEFT ANTI‸ JOIN u ON x.a = u.a", "LEFT ANTI"),
    ("SELECT a FROM t ‸TABLESAMPLE‸ (10 PERCENT)", "TABLESAMPLE"),
    ("SELECT a FROM t ORDER BY a FETCH NEXT 3 ROWS ‸WITH TIES‸", "WITH TIES"),
    ("SELECT a FROM t WHERE a > ‸ANY (SELECT b FROM u‸)", "ANY (SELECT …)"),
]


def refused(marked: str) -> tuple[str, UserError, tuple[int, int]]:
    before, inside, after = marked.split(MARK)
    text = before + inside + after
    with pytest.raises(UserError) as caught:
        parse(text)
    return text, caught.value, (len(before), len(before) + len(inside))


@pytest.mark.parametrize(("marked", "message"), SYNTAX, ids=[marked for marked, _ in SYNTAX])
def test_a_syntax_error_says_what_was_expected_and_points_at_what_was_found(
    marked: str, message: str
) -> None:
    text, error, place = refused(marked)
    assert error.message == message
    assert error.state is SqlState.SYNTAX_ERROR
    assert error.span is not None
    assert (error.span.start, error.span.end) == place
    assert error.span.line == text.count("\n", 0, place[0]) + 1
    assert error.span.column == place[0] - (text.rfind("\n", 0, place[0]) + 1) + 1


@pytest.mark.parametrize(("marked", "what"), NOT_SUPPORTED, ids=[marked for marked, _ in NOT_SUPPORTED])
def test_what_the_language_has_and_we_do_not_is_named(marked: str, what: str) -> None:
    _, error, place = refused(marked)
    assert error.state is SqlState.FEATURE_NOT_SUPPORTED
    assert error.message == f"{what} is not supported yet"
    assert error.span is not None
    assert (error.span.start, error.span.end) == place


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("SELECT * FORM t", "Did you mean FROM?"),
        ("DESCRIBE foo", "Did you mean DESCRIBE RELATION foo?"),
        ('DESCRIBE s."Foo"', 'Did you mean DESCRIBE RELATION s."Foo"?'),
        ("DESCRIBE STROE foo", "Did you mean DESCRIBE STORE"),
        ("DESCRIBE MATERIALISED VIEW foo", "Did you mean DESCRIBE MATERIALIZED VIEW"),
        ("DROP foo", "Did you mean DROP RELATION foo?"),
        ("DESC foo", "DESCRIBE RELATION COLUMNS name;"),
        ("GRANT SELECT ON foo TO ROLE r", "such as ON RELATION orders"),
        ("GRANT SELECT ON RELATION foo TO r", "write ROLE before the name of a role"),
        ("CREATE STREAM s (a TIME) WITH ('a'='b')", "Write VARCHAR."),
        ("TERMINATE foo", "Did you mean TERMINATE QUERY foo?"),
        ("CREATE OR REPLACE STREAM s (a INT) WITH ('a'='b')", "IF NOT EXISTS"),
        ("CREATE STREM x", "CREATE STREAM"),
        ("USE a.b", "Did you mean USE SCHEMA a.b?"),
        ("USE a", "Did you mean USE DATABASE a?"),
        ("CREATE STREAM s (a ARRAY<INT NOT NULL>) WITH ('a'='b')", "Leave NOT NULL out"),
        ("LSIT STORES", "LIST STORES"),
        ("SELCT a FROM b", "SELECT"),
        ("CREATE STORE s WITH (type = KAFKA)", "'type' = value"),
        ("SELECT a FORM t", "FROM"),
        ("SELECT a FROM t JOIN u ON t.a = u.a WITHIN 5 MINUTES", "WITHIN 5 MINUTES ON"),
        ("SELECT a FROM t JOIN u USING (a) WITHIN 5 MINUTES", "WITHIN 5 MINUTES ON"),
    ],
)
def test_a_hint_names_the_nearest_right_text(text: str, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(text)
    assert hint in (caught.value.hint or "")


def _nested(opening: str, closing: str, times: int = 5000) -> str:
    return opening * times + "1" + closing * times


ENDLESS = [
    ("SELECT " + _nested("(", ")"), "40 levels of nesting", "("),
    ("SELECT " + "NOT " * 5000 + "a", "40 levels of nesting", "NOT"),
    ("SELECT " + _nested("CASE WHEN a THEN 1 ELSE ", " END"), "40 levels of nesting", "a"),
    ("SELECT " + _nested("upper(", ")"), "40 levels of nesting", "upper"),
    ("SELECT " + _nested("CAST(", " AS INTEGER)"), "40 levels of nesting", "CAST"),
    ("(" * 5000 + "SELECT 1", "40 levels of nesting", "("),
    ("SELECT * FROM " + "(SELECT * FROM " * 5000, "40 levels of nesting", "SELECT"),
    ("SELECT " + "+".join(["1"] * 10_000), "a chain of 200 operators", "1"),
    ("SELECT a" + "->b" * 5000, "a chain of 200 operators", None),
    ("SELECT a" + "[1]" * 5000, "a chain of 200 operators", "1"),
    ("SELECT a" + " IS NOT NULL" * 5000, "a chain of 200 operators", None),
    ("SELECT CAST(a AS " + "ARRAY<" * 5000 + "INTEGER" + ">" * 5001, "a data type may have 40 levels", None),
    (
        "CREATE STREAM s (a " + "STRUCT<x " * 5000 + "INTEGER" + ">" * 5001,
        "a data type may have 40 levels",
        None,
    ),
    (f"SELECT a FROM t WHERE a IN ({','.join(['1'] * 10_001)})", "a list of 10000 items", "1"),
    (
        f"CREATE STREAM s ({', '.join(f'c{n} INTEGER' for n in range(10_001))})",
        "2000 columns at most",
        "c2000",
    ),
    (f"SELECT {'1' * 10_000}", "a number of 400 characters at most, found 10000", "1" * 10_000),
    (f"SELECT a FROM t LIMIT {'1' * 5000}", "a number of 400 characters", None),
    ("SELECT a FROM t JOIN u WITHIN 100000 DAYS ON t.a = u.a", "a time span of 3660 days", "100000 DAYS"),
    (";" * 500_001, "a text of 500000 words and symbols", ";"),
]


@pytest.mark.parametrize(("text", "limit", "place"), ENDLESS, ids=[text[:30] for text, _, _ in ENDLESS])
def test_what_has_no_end_meets_a_limit_with_its_number(text: str, limit: str, place: str | None) -> None:
    with pytest.raises(UserError) as caught:
        parse(text)
    error = caught.value
    assert error.state is SqlState.CONFIGURATION_LIMIT_EXCEEDED
    assert limit in error.message
    assert error.span is not None
    if place is not None:
        assert text[error.span.start : error.span.end] == place


def test_a_long_condition_is_not_nesting() -> None:
    [statement] = parse("SELECT a FROM t WHERE " + " AND ".join(["a > 1 OR b"] * 5000))
    assert statement.sql().count("OR") == 5000
    assert parse(statement.sql()) == [statement]


def test_a_statement_to_explain_is_not_one_that_explains() -> None:
    with pytest.raises(UserError, match="expected a statement to explain, found 'EXPLAIN'"):
        parse("EXPLAIN " * 5000 + "SELECT 1")


@pytest.mark.parametrize(
    ("char", "title"),
    [
        ("\0", "U+0000 (a control character)"),
        ("\n", "U+000A (a control character)"),
        ("\x1b", "U+001B (a control character)"),
        ("\x9b", "U+009B (a control character)"),
        ("\u200b", "U+200B (ZERO WIDTH SPACE)"),
        ("\u200d", "U+200D (ZERO WIDTH JOINER)"),
        ("\u202e", "U+202E (RIGHT-TO-LEFT OVERRIDE)"),
        ("\u2028", "U+2028 (LINE SEPARATOR)"),
        ("\u2066", "U+2066 (LEFT-TO-RIGHT ISOLATE)"),
        ("\ufeff", "U+FEFF (ZERO WIDTH NO-BREAK SPACE)"),
    ],
)
@pytest.mark.parametrize(
    "text",
    [
        "CREATE DATABASE {}",
        "CREATE STREAM {} (a INT) WITH ('value.format' = JSON)",
        "CREATE STREAM s ({} INT) WITH ('value.format' = JSON)",
        "CREATE STREAM s (a STRUCT<{} INT>) WITH ('value.format' = JSON)",
        "SELECT a AS {} FROM t",
        "SELECT a FROM t WHERE a->{} = 1",
        "DROP ENTITY {} IN STORE k",
    ],
)
def test_a_name_has_no_character_that_one_cannot_see(text: str, char: str, title: str) -> None:
    written = text.format(f'"pay""{char}pal"')
    with pytest.raises(UserError) as caught:
        parse(written)
    assert caught.value.state is SqlState.SYNTAX_ERROR
    assert caught.value.message == f"expected a name of visible characters, found {title} in it"
    assert caught.value.span is not None
    assert caught.value.span.start == written.index(char)


def test_names_of_any_script_are_names() -> None:
    for name in ("größe", "注文", "заказы", "Ünï çödé 🙂", "ภาษาไทย"):
        parse(f'CREATE DATABASE "{name}"')


def test_a_name_may_be_too_long() -> None:
    with pytest.raises(UserError) as caught:
        parse(f"SELECT {'a' * 300} FROM t")
    assert caught.value.state is SqlState.NAME_TOO_LONG
    assert caught.value.span is not None


def test_the_content_of_a_string_is_not_reported() -> None:
    with pytest.raises(UserError) as caught:
        parse("CREATE STORE s WITH ('kafka.sasl.password' 'hunter2')")
    assert caught.value.message == "expected ',' or ')' after a property, found a string"
    [statement] = parse("CREATE STORE s WITH ('kafka.sasl.password' = 'hunter2')")
    assert "hunter2" not in repr(statement)


def test_an_unknown_key_column_is_named() -> None:
    with pytest.raises(UserError, match="PRIMARY KEY names c") as caught:
        parse("CREATE CHANGELOG x (a INT, PRIMARY KEY (c)) WITH ('a' = 'b')")
    assert caught.value.state is SqlState.UNDEFINED_COLUMN


def test_an_error_is_shown_under_its_line() -> None:
    text = "LIST STORES;\nSELECT a\tFORM t"
    with pytest.raises(UserError) as caught:
        parse(text)
    assert shown(text, caught.value.diagnostic()) == (
        "error[42601]: expected a clause such as FROM, found 'FORM'\n"
        "  2 | SELECT a FORM t\n"
        "    |          ^^^^\n"
        "hint: Did you mean FROM?"
    )


def test_an_error_in_a_long_line_is_shown_with_its_surroundings() -> None:
    text = "SELECT " + "a, " * 200 + "FROM t"
    with pytest.raises(UserError) as caught:
        parse(text)
    lines = shown(text, caught.value.diagnostic()).splitlines()
    assert max(map(len, lines)) < 130
    place = lines[2].index("^")
    assert lines[1][place : place + 4] == "FROM"


def test_an_error_without_a_place_is_only_its_words() -> None:
    error = UserError(SqlState.STORE_NOT_FOUND, "the store 'x' does not exist", hint="LIST STORES.")
    assert (
        shown("DROP STORE x", error.diagnostic())
        == "error[3D006]: the store 'x' does not exist\nhint: LIST STORES."
    )
