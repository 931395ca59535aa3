"""Statements' texts in the audit log."""

from __future__ import annotations

import pytest

from headrace.sql.masking import leading_words, masked

KNOWN = {"type", "uris", "topic", "roles"}


def shows(key: str, of_secret: bool) -> bool:
    return key in ({"type"} if of_secret else KNOWN)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("LIST STORES", "LIST STORES"),
        ("SELECT 'a' FROM t -- hunter2", "SELECT 'a' FROM t"),
        (
            "CREATE STORE s WITH ('type' = KAFKA, 'sasl.password' = 'hunter2', 'topic' = 't')",
            "CREATE STORE s WITH ('type' = KAFKA, 'sasl.password' = '****', 'topic' = 't')",
        ),
        # A name that was mistyped, a value that is no text, quotes inside, a comment in between.
        (
            "CREATE STORE s WITH /* ( */ ('pasword'='hun''ter2', 'pin' = -1234, 'a' = hunter2)",
            "CREATE STORE s WITH   ('pasword'= '****', 'pin'= '****', 'a'= '****')",
        ),
        (
            "UPDATE STORE s WITH ('pw' = NULL, 'pw2' = SECRET x)",
            "UPDATE STORE s WITH ('pw' = NULL, 'pw2' = SECRET x)",
        ),
        (
            "INVITE USER 'a' WITH ('roles' = (x, y), 'b' = (x, y))",
            "INVITE USER 'a' WITH ('roles' = (x, y), 'b' = '****')",
        ),
        (
            "CREATE SECRET s WITH ('type' = t, 'topic' = 'hunter2')",
            "CREATE SECRET s WITH ('type' = t, 'topic' = '****')",
        ),
        ("ALTER USER a SET PASSWORD 'hunter2'", "ALTER USER a SET PASSWORD '****'"),
        (
            "SELECT * FROM a WITH ('x' = 'hunter2') JOIN b WITH ('topic' = '1', 'y' = 'hunter2') ON TRUE",
            "SELECT * FROM a WITH ('x' = '****') JOIN b WITH ('topic' = '1', 'y' = '****') ON TRUE",
        ),
        ("WITH c AS (SELECT 1 AS x) SELECT x FROM c", "WITH c AS (SELECT 1 AS x) SELECT x FROM c"),
        ("CREATE ROLE r WITH ( IN ROLE ( a, b ) )", "CREATE ROLE r WITH ( IN ROLE ( a, b ) )"),
        (
            "CREATE STORE s WITH ('uris' = 'postgresql://me:hunter2@db/x?sslpassword=hunter2')",
            "CREATE STORE s WITH ('uris' = 'postgresql://****@db/x?****')",
        ),
    ],
)
def test_what_is_or_may_be_secret_is_taken_out(text: str, expected: str) -> None:
    shown = masked(text, shows=shows, length_max=4000)
    assert " ".join(shown.split()) == " ".join(
        expected.replace("'pin'=", "'pin' =").replace("'a'=", "'a' =").split()
    )


@pytest.mark.parametrize(
    "text",
    [
        "CREATE STORE s WITH ('uris' = 'http://me:hunter2@x', 'p' = 'hunter2')",
        "ALTER USER a SET PASSWORD 'hunter2'",
    ],
)
def test_wherever_a_text_is_cut_nothing_secret_is_left(text: str) -> None:
    for length in range(len(text) + 1):
        assert "hunt" not in masked(text, shows=shows, length_max=length)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("create store s WITH ('password' 'hunter2')", "CREATE STORE …"),
        ("-- hunter2\nSELECT hunter2 FORM x", "SELECT …"),
        ("hunter2", "…"),
        ("'hunter2", "…"),
        ("", "…"),
    ],
)
def test_of_what_does_not_parse_only_words_of_the_language_are_kept(text: str, expected: str) -> None:
    assert leading_words(text) == expected
