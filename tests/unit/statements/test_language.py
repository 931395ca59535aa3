"""The language as data: each part comes from its own declaration."""

from __future__ import annotations

import pytest

from headrace.analyzer.functions import CATALOGUE
from headrace.connectors.registry import STORE_TYPES
from headrace.sql.grammar import GRAMMAR
from headrace.sql.statements.grant import KINDS
from headrace.statements.language import Language, language


@pytest.fixture(scope="module")
def described() -> Language:
    return language()


def test_words_are_those_that_the_grammar_compares_with(described: Language) -> None:
    words = set(described.words)
    assert {word for start in GRAMMAR for word in start if word != "("} <= words
    assert {
        "CASCADE",
        "WITHIN",
        "QUALIFY",
        "SIZE",
        "MATCH_RECOGNIZE",
        "BETWEEN",
        "GROUP",
        "OPTION",
        "MINUTES",
    } <= words
    assert not {"TRUNCATE", "IES", "S"} & words


def test_functions_have_signatures_and_documentation(described: Language) -> None:
    by_name = {function.name: function for function in described.functions}
    assert {name for name, row in CATALOGUE.items() if row.infix is None and name.isidentifier()} <= set(
        by_name
    )
    assert by_name["COUNT"].kind == "aggregate"
    assert by_name["ROW_NUMBER"].kind == "window"
    assert by_name["SUBSTRING"].signature == "SUBSTRING(text, integer [, integer])"
    assert all(function.documentation for function in described.functions)


def test_each_kind_of_object_has_its_privileges(described: Language) -> None:
    by_kind = {facts.kind: facts.privileges for facts in described.privileges}
    assert by_kind["RELATION"] == ("SELECT", "INSERT")
    assert by_kind["QUERY"] == ("USAGE",)
    assert "MANAGE_GRANTS" in by_kind["ORGANIZATION"]
    assert {*by_kind, "ROLE"} == {*KINDS, "ORGANIZATION"}


def test_properties_name_their_statements_and_store_types(described: Language) -> None:
    facts = {(item.name, item.store_type): item for item in described.properties}
    assert facts["kafka.sasl.password", "KAFKA"].is_secret
    assert facts["value.format", ""].values[:2] == ("json", "primitive")
    assert "FROM" in facts["starting.position", ""].statements
    assert all(item.statements for item in described.properties)
    assert {item.store_type for item in described.properties} == {"", *(name.upper() for name in STORE_TYPES)}
