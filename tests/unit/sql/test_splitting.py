"""Boundaries of statements."""

from __future__ import annotations

import pytest

from headrace.sql import is_complete, split


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("", []),
        (" ;; -- a;b\n/* ; */", []),
        ("a; b", ["a", "b"]),
        ("a 'x;''y;' b; c", ["a 'x;''y;' b", "c"]),
        ('a "x;""y;" `z;``w` b; c', ['a "x;""y;" `z;``w` b', "c"]),
        ("a -- it's; not over\n b; c", ["a -- it's; not over\n b", "c"]),
        ("/* x; */ a /* y; */; c", ["a", "c"]),
        ("begin application x a; b; end application; c", ["begin application x a; b; end application", "c"]),
        (
            "BEGIN APPLICATION x a 'END APPLICATION'; b; END /* */ APPLICATION WITH ('k' = 1); c",
            ["BEGIN APPLICATION x a 'END APPLICATION'; b; END /* */ APPLICATION WITH ('k' = 1)", "c"],
        ),
        (
            "EXPLAIN BEGIN APPLICATION x a; b; END APPLICATION; c",
            ["EXPLAIN BEGIN APPLICATION x a; b; END APPLICATION", "c"],
        ),
        (
            "BEGIN APPLICATION x SELECT CASE END application FROM t; b; END APPLICATION; c",
            ["BEGIN APPLICATION x SELECT CASE END application FROM t; b; END APPLICATION", "c"],
        ),
        ("a $$ x; 'y $$; b; c $$;$$ d", ["a $$ x; 'y $$", "b", "c $$;$$ d"]),
        ("a; b $$ never closed; c", ["a", "b $$ never closed; c"]),
        ("a; b 'never closed; c", ["a", "b 'never closed; c"]),
        ("a; b /* never closed; c", ["a", "b /* never closed; c"]),
        ("a; /* never closed", ["a", "/* never closed"]),
    ],
)
def test_statements_end_at_semicolons_outside_quotes_comments_and_applications(
    text: str, statements: list[str]
) -> None:
    assert [text[start:end] for start, end in split(text)] == statements


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True),
        ("-- only a comment", True),
        ("LIST STORES", False),
        ("LIST STORES;", True),
        ("LIST STORES; -- done", True),
        ("LIST STORES; LIST", False),
        ("SELECT ';", False),
        ("LIST STORES; /* more", False),
        ("BEGIN APPLICATION x a;", False),
        ("BEGIN APPLICATION x a; END APPLICATION;", True),
    ],
)
def test_a_text_is_complete_after_its_last_semicolon(text: str, *, complete: bool) -> None:
    assert is_complete(text) is complete
