"""COPY of the PostgreSQL door: its grammar, and lines in the text and CSV formats."""

from __future__ import annotations

import csv
import io
import random

import pytest

from headrace.server.postgres.copy_format import CopyFormat
from headrace.server.postgres.copying import copy_of
from headrace.server.postgres.errors import PostgresError

Cells = list[bytes | None]


def lines(statement: str, *rows: Cells, columns: tuple[str, ...] = ("a", "b")) -> bytes:
    form = copy_of(statement).format
    line = form.lines(columns)
    return b"".join(map(line, rows))


@pytest.mark.parametrize(
    ("statement", "query", "offset"),
    [
        ("COPY (SELECT 1) TO STDOUT", "SELECT 1", 6),
        ("copy ((SELECT ')' AS x)) to stdout", "(SELECT ')' AS x)", 6),
        ("COPY orders TO STDOUT", "SELECT * FROM orders", -9),
        ('COPY shop . public."Or""ders" TO STDOUT', 'SELECT * FROM shop . public."Or""ders"', -9),
        ("COPY orders (a, b) TO STDOUT CSV", "SELECT a, b FROM orders", None),
        ("COPY function_source TO STDOUT", "SELECT * FROM function_source", -9),
    ],
)
def test_the_query_of_a_copy(statement: str, query: str, offset: int | None) -> None:
    copy = copy_of(statement)
    assert (copy.query, copy.offset) == (query, offset)


def test_rows_in_the_text_format() -> None:
    assert (
        lines("COPY t TO STDOUT", [b"a\tb\\c\nd\r\x08\x0c\x0b", None]) == b"a\\tb\\\\c\\nd\\r\\b\\f\\v\t\\N\n"
    )
    assert lines("COPY t TO STDOUT (DELIMITER '|', NULL '')", [b"1|2", None]) == b"1\\|2|\n"
    assert lines("COPY t TO STDOUT WITH DELIMITER AS E'\\t' NULL AS '-'", [b"", None]) == b"\t-\n"


def test_rows_in_the_csv_format() -> None:
    statement = "COPY t TO STDOUT (FORMAT csv)"
    rows: list[Cells] = [[b"x", None], [b"", b"a,b"], [b'the "x"', b"two\nlines"], [b"\\.", b"cr\r"]]
    assert lines(statement, *rows) == b'x,\n"","a,b"\n"the ""x""","two\nlines"\n\\.,"cr\r"\n'
    assert lines(statement, [b"\\."], columns=("a",)) == b'"\\."\n'
    other = "COPY t TO STDOUT (FORMAT 'csv', DELIMITER ';', QUOTE '''', ESCAPE '\\', NULL 'NULL')"
    assert lines(other, [b"it's \\", None], [b"NULL", b"a,b"]) == b"'it\\'s \\\\';NULL\n'NULL';a,b\n"
    assert lines("COPY t TO STDOUT CSV FORCE QUOTE b", [b"1", b"2"], [b"1", None]) == b'1,"2"\n1,\n'
    assert lines("COPY t TO STDOUT (FORMAT csv, FORCE_QUOTE *)", [b"1", b"2"]) == b'"1","2"\n'
    header = copy_of("COPY t TO STDOUT WITH CSV HEADER").format
    assert header.has_header
    assert header.header(["a", "b,c"]) == b'a,"b,c"\n'
    assert not copy_of("COPY t TO STDOUT (FORMAT csv, HEADER false)").format.has_header


def test_a_reader_of_csv_gets_the_same_values() -> None:
    number = random.Random(83)
    rows = [
        ["".join(number.choices('ab,";\n\r\\ é', k=number.randrange(6))) for _ in range(3)]
        for _ in range(300)
    ]
    line = CopyFormat(is_csv=True, delimiter=",", null="").lines(("a", "b", "c"))
    written = b"".join(line([cell.encode() for cell in row]) for row in rows).decode()
    assert list(csv.reader(io.StringIO(written, newline=""))) == rows


@pytest.mark.parametrize(
    ("statement", "state"),
    [
        ("COPY orders FROM STDIN", "0A000"),
        ("COPY orders (a) FROM STDIN CSV", "0A000"),
        ("COPY orders TO '/etc/passwd'", "0A000"),
        ("COPY orders TO PROGRAM 'sh'", "0A000"),
        ("COPY (INSERT INTO t VALUES (1)) TO STDOUT", "0A000"),
        ("COPY FUNCTION_SOURCE f TO 'f.jar'", "0A000"),
        ("COPY t TO STDOUT (FORMAT binary)", "0A000"),
        ("COPY t TO STDOUT BINARY", "0A000"),
        ("COPY t TO STDOUT (QUOTE '''')", "0A000"),
        ("COPY t TO STDOUT (ENCODING 'LATIN1')", "0A000"),
        ("COPY", "42601"),
        ("COPY (SELECT 1", "42601"),
        ("COPY (SELECT 1) TO", "0A000"),
        ("COPY t TO STDOUT (FORMAT)", "42601"),
        ("COPY t TO STDOUT (FORMAT csv, FORMAT csv)", "42601"),
        ("COPY t TO STDOUT (FREEZE)", "42601"),
        ("COPY t TO STDOUT (HEADER match)", "42601"),
        ("COPY t TO STDOUT (DELIMITER 1)", "42601"),
        ("COPY t TO STDOUT CSV extra", "42601"),
        ("COPY t TO STDOUT (FORMAT parquet)", "22023"),
        ("COPY t TO STDOUT (DELIMITER 'ab')", "22023"),
        ("COPY t TO STDOUT (DELIMITER 'x')", "22023"),
        ("COPY t TO STDOUT (DELIMITER E'\\n')", "22023"),
        ("COPY t TO STDOUT (NULL 'a\nb')", "22023"),
        ("COPY t TO STDOUT (FORMAT csv, DELIMITER '\"')", "22023"),
        ("COPY t TO STDOUT (FORMAT csv, NULL ',')", "22023"),
    ],
)
def test_a_copy_that_is_refused(statement: str, state: str) -> None:
    with pytest.raises(PostgresError) as refused:
        copy_of(statement)
    assert refused.value.state == state


def test_only_columns_of_the_query_are_quoted() -> None:
    with pytest.raises(PostgresError, match="'c', which is not a column"):
        lines("COPY t TO STDOUT (FORMAT csv, FORCE_QUOTE (a, c))")
