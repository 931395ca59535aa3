"""A sample of the texts of `make fuzz`, which parses a million."""

from __future__ import annotations

from itertools import islice

from headrace.sql.ast import Statement
from headrace.sql.grammar import GRAMMAR
from tests.fuzz.texts import Fault, Texts, corpus, fault

SAMPLE = 2_000


def test_the_corpus_has_every_statement() -> None:
    read = [statement for text in corpus() for statement in read_whole(text)]
    assert {type(statement).__module__ for statement in read} == {
        function.__module__ for function in GRAMMAR.values() if function.__module__ != "headrace.sql.grammar"
    } | {"headrace.sql.dropping", "headrace.sql.listing"}


def read_whole(text: str) -> list[Statement]:
    statements = fault(text)
    assert not isinstance(statements, Fault), statements
    return statements


def test_any_text_is_read_or_refused_and_what_is_read_is_printed_the_same() -> None:
    faults = [outcome for text in islice(Texts(seed=10), SAMPLE) if isinstance(outcome := fault(text), Fault)]
    assert faults == []
