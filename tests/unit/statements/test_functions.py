"""Function sources and functions: what is uploaded and kept, what their classes are, who may have and call them."""

from __future__ import annotations

import datetime
import hashlib
import io
import json
import re
import warnings
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress

import pytest

from harness.jar import SCALAR, class_file, jar_of, jar_with, returning
from harness.session import ADMINISTRATOR, SHOP_DESCRIPTORS, UDFS, Session
from headrace.catalog.objects import Principal, UserFunction
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.core.types import VARCHAR
from headrace.statements import archive, jar
from headrace.statements.function_class import function_class

READER = Principal("ben", ("public",), "public")


async def create(session: Session, text: str, data: bytes = UDFS) -> None:
    statement = f"CREATE FUNCTION_SOURCE {text}"
    files = {"x.jar": data}
    await session.service.execute(statement, principal=ADMINISTRATOR, context=session.context, files=files)


async def refused(session: Session, text: str) -> UserError:
    with pytest.raises(UserError) as caught:
        await session.run(text)
    return caught.value


@pytest.mark.parametrize(
    "clause", ["WITH ('file' = '@/x/x.jar')", "WITH ('file' = 'x.jar')", "FROM '@x.jar'"]
)
async def test_a_source_is_made_of_an_uploaded_jar(session: Session, clause: str) -> None:
    await create(session, f'"Fs" {clause}')
    listed = await session.rows("LIST FUNCTION_SOURCES WHERE name = 'fs'", "Name", "State", "Language")
    assert listed == [("Fs", "ready", "Java")]
    described = dict(await session.rows('DESCRIBE FUNCTION_SOURCE "Fs"'))
    assert (described["classes"], described["sha256"]) == ("2", hashlib.sha256(UDFS).hexdigest())
    with pytest.raises(UserError) as again:
        await create(session, f'"Fs" {clause}')
    assert again.value.state is SqlState.DUPLICATE_FUNCTION_SOURCE
    await create(session, f'IF NOT EXISTS "Fs" {clause}', b"nothing is read")
    await session.run('DROP FUNCTION_SOURCE "Fs"')
    assert await session.rows("SELECT name FROM deltastream.sys.function_sources") == [("u",)]


async def test_the_language_of_a_source_may_be_specified_and_is_that_of_its_file(session: Session) -> None:
    await create(session, "s WITH ('file' = '@x.jar', 'language' = 'java')")
    assert ("s", "Java") in await session.rows("LIST FUNCTION_SOURCES", "Name", "Language")
    with pytest.raises(UserError) as caught:
        await create(session, "t WITH ('file' = '@x.jar', 'language' = python)")
    assert caught.value.state is SqlState.INVALID_PARAMETER
    assert (
        caught.value.message
        == "'language' must be Java, the language of the file, or left out, found 'python'"
    )


async def test_the_libraries_of_a_jar_are_a_file_of_their_own(session: Session) -> None:
    library = jar_of("com/x/Base.class")
    files = {"x.jar": jar_with({"com/x/F": ("com/x/Base", ())}), "y.jar": library}
    text = "CREATE FUNCTION_SOURCE s WITH ('file' = '@x.jar', 'lib' = '@libs/y.jar')"
    await session.service.execute(text, principal=ADMINISTRATOR, context=session.context, files=files)
    described = dict(await session.rows("DESCRIBE FUNCTION_SOURCE s"))
    assert described["lib_sha256"] == hashlib.sha256(library).hexdigest()
    await session.run(
        "CREATE FUNCTION g(a VARCHAR) RETURNS VARCHAR LANGUAGE JAVA WITH ('source.name' = s, 'class.name' = 'com.x.F')"
    )
    bad = "CREATE FUNCTION_SOURCE t WITH ('file' = '@x.jar', 'lib' = '@y.jar')"
    with pytest.raises(UserError, match="cannot be read as a zip file") as caught:
        await session.service.execute(
            bad, principal=ADMINISTRATOR, context=session.context, files={**files, "y.jar": b"no"}
        )
    assert caught.value.span is not None


def encrypted(data: bytes) -> bytes:
    """Return the same bytes with each entry marked as encrypted."""
    changed = bytearray(data)
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        for match in re.finditer(re.escape(mark), data):
            changed[match.start() + offset] |= 1
    return bytes(changed)


def bomb() -> bytes:
    """Return a few kilobytes that claim to be gigabytes."""
    data = bytearray(jar_of("A.class", "b.bin"))
    last = data.rindex(b"PK\x01\x02")
    data[last + 24 : last + 28] = (2**32 - 2).to_bytes(4, "little")
    return bytes(data)


def twice() -> bytes:
    data = io.BytesIO()
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(data, "w") as archive:
        archive.writestr("A.class", class_file())
        archive.writestr("A.class", class_file())
    return data.getvalue()


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "text": (lambda: b"class Udf {}", "cannot be read as a zip file"),
    "empty": (lambda: b"", "cannot be read as a zip file"),
    "cut": (lambda: UDFS[: len(UDFS) // 2], "cannot be read as a zip file"),
    "damaged": (lambda: UDFS.replace(b"PK\x03\x04", b"PK\x03\x05"), "cannot be read as a zip file"),
    "no classes": (lambda: jar_of("readme.txt", content=b"hello"), "it contains no class"),
    "no class": (lambda: jar_of("A.class", content=b"hello"), "'A.class' is not a compiled class"),
    "absolute": (lambda: jar_of("/etc/A.class"), "'/etc/A.class' points outside"),
    "up": (lambda: jar_of("a/../../A.class"), "points outside"),
    "Windows": (lambda: jar_of("C:\\A.class"), "points outside"),
    "twice": (twice, "the entry 'A.class' twice"),
    "encrypted": (lambda: encrypted(UDFS), "is encrypted"),
    "bomb": (bomb, "it has 4294967"),
}


@pytest.mark.parametrize("what", HOSTILE)
async def test_what_is_no_harmless_jar_is_refused_where_it_stands(session: Session, what: str) -> None:
    make, message = HOSTILE[what]
    with pytest.raises(UserError) as caught:
        await create(session, "s WITH ('file' = '@x.jar')", make())
    assert (caught.value.state, message in caught.value.message) == (SqlState.DATA_EXCEPTION, True), (
        caught.value
    )
    assert caught.value.span is not None
    assert await session.rows("LIST FUNCTION_SOURCES", "Name") == [("u",)]


def test_a_jar_of_too_many_entries_is_refused_before_they_are_read() -> None:
    entry = b"PK\x01\x02" + b"\0" * 42
    with pytest.raises(UserError, match="more than 50000 entries"):
        jar.count_classes(entry * (archive.ENTRIES_MAX + 1))


MADE = "WITH ('source.name' = u, 'class.name' = 'com.x.Reverse')"


async def test_functions_of_one_name_differ_by_the_types_of_their_arguments(session: Session) -> None:
    for taken in ("a VARCHAR", '"B" BIGINT, c DECIMAL(4, 2)', ""):
        await session.run(f"CREATE FUNCTION rev({taken}) RETURNS VARCHAR LANGUAGE JAVA {MADE}")
    assert await session.rows("LIST FUNCTIONS WHERE name = 'rev'", "Signature") == [
        ("rev()",),
        ('rev("B" BIGINT, c DECIMAL(4, 2))',),
        ("rev(a VARCHAR)",),
    ]
    error = await refused(session, f"CREATE FUNCTION rev(other VARCHAR) RETURNS INT LANGUAGE JAVA {MADE}")
    assert error.state is SqlState.DUPLICATE_FUNCTION
    several = await refused(session, "DROP FUNCTION rev")
    assert "several functions are named rev" in several.message
    assert several.hint == "The signatures are rev(), rev(BIGINT, DECIMAL(4, 2)), rev(VARCHAR)."
    await session.run("DROP FUNCTION rev(); DROP FUNCTION rev(x BIGINT, y DECIMAL(4, 2))")
    assert (await refused(session, "DROP FUNCTION rev(BIGINT)")).state is SqlState.FUNCTION_NOT_FOUND
    assert dict(await session.rows("DESCRIBE FUNCTION rev"))["signature"] == "rev(a VARCHAR)"
    await session.run("DROP FUNCTION rev; DROP FUNCTION IF EXISTS rev(VARCHAR)")
    assert await session.rows("LIST FUNCTIONS", "Name") == [("again",)]


async def test_a_call_is_tried_on_values(session: Session) -> None:
    assert await session.rows("TEST FUNCTION GREATEST(12 & 10, 3)", "result") == [("8",)]
    assert (await refused(session, "TEST FUNCTION unknown(1)")).state is SqlState.FUNCTION_NOT_FOUND
    error = await refused(session, "TEST FUNCTION again('a')")
    assert "no function fits the call again(VARCHAR)" in error.message
    assert error.span is not None
    assert (error.span.start, error.span.end) == (14, 23)


async def test_the_queries_that_call_a_function_are_counted(session: Session) -> None:
    counted = "SELECT properties FROM deltastream.sys.functions WHERE name = 'again'"
    [(properties,)] = await session.rows(counted)
    assert json.loads(properties) == {"returns": "VARCHAR", "language": "JAVA", "uses": 0}


async def test_the_parts_of_a_function_are_reported(session: Session) -> None:
    made = f"{MADE[:-1]}, 'egress.allow.uris' = 'api.example.com:443, b')"
    await session.run(
        f"CREATE FUNCTION IF NOT EXISTS f(x STRUCT<a INT>) RETURNS BOOLEAN LANGUAGE JAVA {made}"
    )
    described = dict(await session.rows("DESCRIBE FUNCTION f"))
    assert (described["returns"], described["class.name"]) == ("BOOLEAN", "com.x.Reverse")
    assert (described["source.name"], described["egress.allow.uris"]) == ("u", "api.example.com:443,b")
    assert dict(await session.rows("DESCRIBE FUNCTION_SOURCE u"))["functions"] == (
        "again(text VARCHAR, times BIGINT), f(x STRUCT<a INTEGER>)"
    )
    read = (
        "SELECT name, signature, class_name FROM deltastream.sys.functions WHERE NOT built_in ORDER BY name"
    )
    assert await session.rows(read) == [
        ("again", "again(text VARCHAR, times BIGINT)", "com.x.Again"),
        ("f", "f(x STRUCT<a INTEGER>)", "com.x.Reverse"),
    ]


@pytest.mark.parametrize(
    ("text", "state", "expected"),
    [
        (
            "f() RETURNS INT LANGUAGE JAVA WITH ('class.name' = 'A')",
            SqlState.MISSING_PARAMETER,
            "source.name",
        ),
        (
            "f() RETURNS INT LANGUAGE JAVA WITH ('source.name' = 'v', 'class.name' = 'A')",
            SqlState.FUNCTION_SOURCE_NOT_FOUND,
            "'v' does not exist",
        ),
        (
            "f() RETURNS INT LANGUAGE JAVA WITH ('source.name' = 'u', 'class.name' = 'com.x.Revers')",
            SqlState.FUNCTION_NOT_FOUND,
            "Did you mean com.x.Reverse?",
        ),
        (
            "f() RETURNS INT LANGUAGE JAVA WITH ('source.name' = 'u', 'class.name' = '../A')",
            SqlState.INVALID_PARAMETER,
            "the full name of a class",
        ),
        (f"upper(a VARCHAR) RETURNS INT LANGUAGE JAVA {MADE}", SqlState.DUPLICATE_FUNCTION, "is built in"),
        (f"f(a INT, a INT) RETURNS INT LANGUAGE JAVA {MADE}", SqlState.SYNTAX_ERROR, "the parameter a twice"),
        (f"f(a INT) RETURNS INT LANGUAGE RUST {MADE}", SqlState.SYNTAX_ERROR, "expected JAVA or PYTHON"),
        ("f(a INT) RETURNS INT LANGUAGE PYTHON", SqlState.SYNTAX_ERROR, "AS $$ def name(parameter)"),
        (
            "f() RETURNS INT LANGUAGE PYTHON AS $$ def f(): return 1",
            SqlState.SYNTAX_ERROR,
            "expected $$ at the end",
        ),
        (
            f"f() RETURNS INT LANGUAGE PYTHON AS $$def f(): return 1$$ {MADE}",
            SqlState.INVALID_PARAMETER,
            "source.name",
        ),
        (
            f"f({', '.join(f'a{n} VARCHAR' for n in range(120))}) RETURNS INT LANGUAGE JAVA {MADE}",
            SqlState.CONFIGURATION_LIMIT_EXCEEDED,
            "at most 1000 bytes",
        ),
        (
            f"f() RETURNS INT LANGUAGE JAVA {MADE[:-1]}, 'egress.allow.uris' = 'http://x/y')",
            SqlState.INVALID_PARAMETER,
            "hosts with or without a port",
        ),
    ],
)
async def test_what_a_function_cannot_be_made_of(
    session: Session, text: str, state: SqlState, expected: str
) -> None:
    error = await refused(session, f"CREATE FUNCTION {text}")
    assert error.state is state
    assert expected in f"{error.message} {error.hint}"
    assert error.span is not None


async def test_a_class_of_a_newer_java_is_refused(session: Session) -> None:
    await create(session, "s WITH ('file' = 'x.jar')", jar_of("A.class", content=class_file(69)))
    text = "CREATE FUNCTION f() RETURNS INT LANGUAGE JAVA WITH ('source.name' = s, 'class.name' = 'A')"
    error = await refused(session, text)
    assert (error.state, error.hint) == (SqlState.DATA_EXCEPTION, "Compile it with --release 17.")


async def test_a_source_is_not_dropped_under_its_functions(session: Session) -> None:
    error = await refused(session, "DROP FUNCTION_SOURCE u")
    assert error.state is SqlState.DEPENDENT_OBJECTS_EXIST
    assert error.message.endswith("is referenced by the function again(VARCHAR, BIGINT)")
    [(summary,)] = await session.rows("DROP FUNCTION_SOURCE u CASCADE", "Summary")
    assert summary == "function source u was dropped with 1 object"
    assert await session.rows("LIST FUNCTIONS") == []


async def test_names_and_owners_change_and_what_is_granted_stays(session: Session) -> None:
    await session.run("USE ROLE sysadmin; GRANT USAGE ON FUNCTION again(VARCHAR, BIGINT) TO ROLE public")
    await session.run('ALTER FUNCTION_SOURCE u RENAME TO texts; ALTER FUNCTION again RENAME TO "Re("')
    assert await session.rows("LIST FUNCTIONS", "Name", "Signature", "SourceName") == [
        ("Re(", '"Re("(text VARCHAR, times BIGINT)', "texts")
    ]
    granted = "SELECT kind, name FROM deltastream.sys.grants WHERE grantee = 'public' AND kind = 'function'"
    assert await session.rows(granted) == [("function", '"Re("(VARCHAR, BIGINT)')]
    assert (await session.answer('CAN I USAGE ON FUNCTION "Re("(VARCHAR, BIGINT)', READER))[0][0] == "true"
    assert (await session.answer("CAN I USAGE ON FUNCTION again(VARCHAR, BIGINT)", READER))[0][0] == "false"
    assert (await session.answer('DESCRIBE FUNCTION "Re("', READER))[0] == ("name", "Re(")
    await session.run('ALTER FUNCTION "Re(" OWNER TO public')
    error = await refused(session, 'ALTER FUNCTION "Re(" RENAME TO upper')
    assert error.state is SqlState.DUPLICATE_FUNCTION


async def test_a_call_requires_usage_and_arguments_that_fit(session: Session) -> None:
    await session.run("USE DATABASE shop")
    await session.run(
        "GRANT USAGE ON DATABASE shop TO ROLE public; GRANT USAGE ON SCHEMA shop.public TO ROLE public"
    )
    await session.run('GRANT SELECT ON RELATION "Best" TO ROLE public')
    call = "SELECT again('a', n) AS a FROM shop.public.\"Best\""
    with pytest.raises(UserError) as unknown:
        await session.answer(call, READER)
    assert (unknown.value.state, unknown.value.span is not None) == (SqlState.FUNCTION_NOT_FOUND, True)
    for text, message in (
        ("SELECT again(TRUE, n) AS a FROM orders", "no function fits the call again(BOOLEAN, BIGINT)"),
        ("SELECT again('a') AS a FROM orders", "no function fits the call again(VARCHAR)"),
        ("SELECT again(DISTINCT 'a', n) AS a FROM orders", "DISTINCT requires an aggregate"),
        (
            "SELECT n FROM orders CROSS JOIN LATERAL TABLE(again('a', n)) AS t(a)",
            "requires the call of a table function",
        ),
    ):
        error = await refused(session, text)
        assert message in error.message
        assert error.span is not None
    assert (await refused(session, "SELECT agin(n) AS a FROM orders")).state is SqlState.FUNCTION_NOT_FOUND


async def test_a_call_that_fits_two_overloads_equally_is_refused(session: Session) -> None:
    await session.run(
        "USE DATABASE shop;"
        "CREATE FUNCTION pick(a BIGINT, b INT) RETURNS BIGINT LANGUAGE PYTHON AS 'def pick(a, b): return a';"
        "CREATE FUNCTION pick(a INT, b BIGINT) RETURNS BIGINT LANGUAGE PYTHON AS 'def pick(a, b): return b'"
    )
    error = await refused(session, "SELECT pick(CAST(1 AS INT), CAST(2 AS INT)) AS a FROM orders")
    assert error.state is SqlState.DATATYPE_MISMATCH
    assert "pick(INTEGER, INTEGER)" in error.message
    assert (error.hint or "").endswith("choose one: pick(a BIGINT, b INTEGER), pick(a INTEGER, b BIGINT).")
    assert error.span is not None


async def test_a_role_without_a_privilege_learns_nothing(session: Session) -> None:
    for text in (
        "DESCRIBE FUNCTION_SOURCE {}",
        "COPY FUNCTION_SOURCE {} TO 'x'",
        "DROP FUNCTION {}",
        "GRANT USAGE ON FUNCTION {}(VARCHAR, BIGINT) TO ROLE public",
    ):
        errors = []
        for name in ("u" if "SOURCE" in text else "again", "gone"):
            with pytest.raises(UserError) as caught:
                await session.answer(text.format(name), READER)
            message = re.sub(rf"\b{name}\b", "…", caught.value.message)
            errors.append((caught.value.state, message, caught.value.hint))
        assert errors[0] == errors[1]
    assert await session.answer("LIST FUNCTIONS", READER) == []


async def test_copy_returns_the_place_and_digest_of_the_file(session: Session) -> None:
    organization = session.catalog.organization().id
    for kind, name, data in (
        ("FUNCTION_SOURCE", "u", UDFS),
        ("DESCRIPTOR_SOURCE", "p", SHOP_DESCRIPTORS),
    ):
        url = f"/v2/download/{kind.lower()}/{organization}/{name}"
        file_row = (name, url, str(len(data)), hashlib.sha256(data).hexdigest())
        assert await session.rows(f"COPY {kind} {name} TO '@x'") == [file_row]
        assert await session.rows(f"LIST {kind}S", "Url") == [(url,)]
        service = session.service
        assert service.download(ADMINISTRATOR, kind.lower(), organization, name) == data
        assert service.download(ADMINISTRATOR, kind.lower(), "headrace", name) == data
        assert service.download(READER, kind.lower(), organization, name) is None
        assert service.download(ADMINISTRATOR, kind.lower(), organization, "../catalog.db") is None
        assert service.download(ADMINISTRATOR, kind.lower(), "another", name) is None
        assert service.download(ADMINISTRATOR, "secret", organization, name) is None
        await session.run(f"GRANT USAGE ON {kind} {name} TO ROLE public")
        assert service.download(READER, kind.lower(), organization, name) == data


TABLE, AGGREGATE = (SCALAR.replace("ScalarFunction", kind) for kind in ("TableFunction", "AggregateFunction"))
TEXT = "Ljava/lang/String;"


@pytest.mark.parametrize(
    ("classes", "kind", "repeatable"),
    [
        ({"A": (SCALAR, (("eval", f"({TEXT})V", b""),))}, "scalar", "true"),
        ({"A": (SCALAR, (("eval", f"({TEXT})V", b""), returning(False)))}, "scalar", "false"),
        ({"A": (SCALAR, (("eval", f"({TEXT})V", b""), returning(True)))}, "scalar", "true"),
        ({"A": (TABLE, (("eval", f"({TEXT})V", b""),))}, "table", "true"),
        ({"A": (AGGREGATE, (("accumulate", f"(LAcc;{TEXT})V", b""),))}, "aggregate", "true"),
        (
            {"A": ("b/Base", ()), "b/Base": (TABLE, (("eval", f"({TEXT})V", b""), returning(False)))},
            "table",
            "false",
        ),
    ],
)
async def test_the_class_of_a_function_decides_about_its_kind(
    session: Session,
    classes: Mapping[str, tuple[str, tuple[tuple[str, str, bytes], ...]]],
    kind: str,
    repeatable: str,
) -> None:
    await create(session, "s WITH ('file' = 'x.jar')", jar_with(classes))
    made = "LANGUAGE JAVA WITH ('source.name' = s, 'class.name' = 'A')"
    await session.run(f"CREATE FUNCTION f(a VARCHAR) RETURNS VARCHAR {made}")
    described = dict(await session.rows("DESCRIBE FUNCTION f"))
    assert (described["type"], described["deterministic"]) == (kind, repeatable)


@pytest.mark.parametrize(
    ("extends", "methods", "message"),
    [
        ("java/lang/Object", (), "is not a function: it extends java.lang.Object"),
        (SCALAR, (), "no public method eval for 1 argument Add a public method eval"),
        (SCALAR, (("eval", "(JI)V", b""),), "no public method eval for 1 argument It has eval(long, int)"),
        (AGGREGATE, (("accumulate", "(LAcc;)V", b""),), "no public method accumulate for 1 argument"),
    ],
)
async def test_a_class_that_is_not_the_declared_function_is_refused(
    session: Session, extends: str, methods: tuple[tuple[str, str, bytes], ...], message: str
) -> None:
    await create(session, "s WITH ('file' = 'x.jar')", jar_with({"A": (extends, methods)}))
    made = "LANGUAGE JAVA WITH ('source.name' = s, 'class.name' = 'A')"
    error = await refused(session, f"CREATE FUNCTION f(a VARCHAR) RETURNS VARCHAR {made}")
    assert (error.state, error.span is not None) == (SqlState.DATATYPE_MISMATCH, True)
    assert message in f"{error.message} {error.hint}"


def test_a_class_that_is_cut_or_changed_anywhere_is_read_or_refused() -> None:
    whole = class_file(name="A", methods=(("eval", f"({TEXT})V", b""), returning(False)))
    moment = datetime.datetime.now(datetime.UTC)
    function = UserFunction("f", (("a", VARCHAR),), VARCHAR, "s", "A", "o", moment, moment)
    changed = [whole[:length] for length in range(8, len(whole))]
    changed += [whole[:place] + b"\xff" + whole[place + 1 :] for place in range(8, len(whole))]
    for data in changed:
        with suppress(UserError):
            function_class(function, lambda name, data=data: data if name == "A" else None)


PYTHON_KINDS = {
    "def f(a): return a": ("VARCHAR", "scalar"),
    "def f(*a): return a": ("VARCHAR", "scalar"),
    "def f(a, b=1): return a": ("VARCHAR", "scalar"),
    "def f(a): yield a": ("TABLE (x VARCHAR, y BIGINT)", "table"),
    "class f:\n def accumulate(self, a): pass\n def finish(self): pass": ("VARCHAR", "aggregate"),
}


async def test_the_code_of_a_function_in_python_decides_about_its_kind(session: Session) -> None:
    for code, (returns, kind) in PYTHON_KINDS.items():
        await session.run(f"CREATE FUNCTION f(a VARCHAR) RETURNS {returns} LANGUAGE PYTHON AS $$\n{code}\n$$")
        described = dict(await session.rows("DESCRIBE FUNCTION f"))
        assert (described["type"], described["language"], described["code"]) == (kind, "Python", code)
        await session.run("DROP FUNCTION f")
    await session.run(
        "CREATE FUNCTION g() RETURNS INT LANGUAGE PYTHON AS 'def h(): return 1' WITH ('handler' = h, 'deterministic' = FALSE)"
    )
    described = dict(await session.rows("DESCRIBE FUNCTION g"))
    assert (described["class.name"], described["deterministic"], described["source.name"]) == (
        "h",
        "false",
        None,
    )


@pytest.mark.parametrize(
    ("code", "state", "message"),
    [
        ("def f(:", SqlState.SYNTAX_ERROR, "is not Python: "),
        ("(" * 5000, SqlState.SYNTAX_ERROR, "the code of the function"),
        ("\0", SqlState.SYNTAX_ERROR, "the code of the function"),
        ("f = 1", SqlState.FUNCTION_NOT_FOUND, "defines no function or class f"),
        ("def g(): pass", SqlState.FUNCTION_NOT_FOUND, "It defines g"),
        ("def f(): pass", SqlState.DATATYPE_MISMATCH, "does not accept 1 argument"),
        ("def f(a, b): pass", SqlState.DATATYPE_MISMATCH, "does not accept 1 argument"),
        ("def f(a, *, b): pass", SqlState.DATATYPE_MISMATCH, "does not accept 1 argument"),
        ("class f: pass", SqlState.DATATYPE_MISMATCH, "no method accumulate for 1 argument"),
        ("x = 1\n" * 60_000, SqlState.CONFIGURATION_LIMIT_EXCEEDED, "at most 262144 bytes"),
    ],
)
async def test_code_that_is_not_the_declared_function_is_refused(
    session: Session, code: str, state: SqlState, message: str
) -> None:
    error = await refused(
        session, f"CREATE FUNCTION f(a VARCHAR) RETURNS VARCHAR LANGUAGE PYTHON AS $${code}$$"
    )
    assert (error.state, error.span is not None) == (state, True)
    assert message in f"{error.message} {error.hint}"
