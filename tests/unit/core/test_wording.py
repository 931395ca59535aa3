"""Words of messages that depend on a number or on the word after them."""

from __future__ import annotations

import pytest

from headrace.core.wording import counted, plural, with_article


@pytest.mark.parametrize(
    ("count", "expected"), [(0, "0 queries"), (1, "1 query"), (2, "2 queries"), (11, "11 queries")]
)
def test_a_count_decides_the_form_of_its_word(count: int, expected: str) -> None:
    assert counted(count, "query", "queries") == expected


def test_a_regular_plural_needs_no_form_of_its_own() -> None:
    assert [plural("row", count) for count in (0, 1, 2)] == ["rows", "row", "rows"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("INTEGER", "an INTEGER"),
        ("ARRAY<BIGINT>", "an ARRAY<BIGINT>"),
        ("Oracle store", "an Oracle store"),
        ("S3 store", "an S3 store"),
        ("STREAM", "a STREAM"),
        ("user", "a user"),
    ],
)
def test_an_article_fits_the_sound_of_the_words(words: str, expected: str) -> None:
    assert with_article(words) == expected
