"""GENERATE TEMPLATE: the grammar reads its results, for every store type and every statement."""

from __future__ import annotations

import re

import pytest

from harness.session import Session
from headrace.connectors.registry import STORE_TYPES, connector
from headrace.core.errors import UserError
from headrace.core.properties import Scope, of_scope
from headrace.core.sqlstate import SqlState
from headrace.sql import parse
from headrace.sql.ast import Properties
from headrace.sql.grammar import GRAMMAR
from headrace.statements.template import _OF_OTHERS, _OF_STORES


async def template(session: Session, of: str) -> str:
    [(text,)] = await session.rows(f"GENERATE TEMPLATE FOR {of}")
    assert text is not None
    return text


async def test_a_store_s_template_names_each_property_of_its_type(session: Session) -> None:
    for name in STORE_TYPES:
        text = await template(session, f"CREATE STORE {name}")
        (made,) = parse(text)
        assert made.properties.get("type") == name.upper()  # type: ignore[attr-defined]
        for spec in of_scope(connector(name).properties, Scope.STORE):
            assert f"'{spec.name}" in text


async def test_what_may_be_given_can_be_given_by_taking_its_comment_away(session: Session) -> None:
    text = await template(session, "CREATE STORE KAFKA")
    given = re.sub(r"^  -- (, '[^']+' = '…'):.*$", r"  \1", text, flags=re.MULTILINE)
    assert given != text
    (made,) = parse(given)
    assert "kafka.sasl.username" in made.properties  # type: ignore[attr-defined]


async def test_what_is_needed_with_another_property_stands_where_that_does(session: Session) -> None:
    (made,) = parse(await template(session, "CREATE STORE DATABRICKS"))
    given: Properties = made.properties  # type: ignore[attr-defined]
    assert {"databricks.app_token", "aws.access_key_id", "aws.secret_access_key"} <= set(given)
    assert not {"databricks.oauth.client_secret", "aws.iam_external_id"} & set(given)


async def test_every_template_with_properties_that_are_needed_is_a_statement(session: Session) -> None:
    for words in (*_OF_OTHERS, *_OF_STORES):
        text = await template(session, f"{words} KAFKA" if words in _OF_STORES else words)
        assert text.startswith(words)
        assert "without it: needed" not in text
        if re.search(r"^  '", text, re.MULTILINE):
            assert parse(text)


async def test_every_other_statement_says_its_syntax(session: Session) -> None:
    for words in GRAMMAR:
        text = " ".join(words)
        if text not in (*_OF_STORES, *_OF_OTHERS, "("):
            assert (await template(session, text)).endswith(";"), text


@pytest.mark.parametrize(
    ("of", "state"),
    [
        ("CREATE STORE", SqlState.MISSING_PARAMETER),
        ("CREATE STORE cassandra", SqlState.INVALID_PARAMETER),
        ("CREATE SECRET kafka", SqlState.SYNTAX_ERROR),
        ("nothing", SqlState.SYNTAX_ERROR),
        ("", SqlState.SYNTAX_ERROR),
    ],
)
async def test_what_has_no_template(session: Session, of: str, state: SqlState) -> None:
    with pytest.raises(UserError) as refused:
        await template(session, of)
    assert refused.value.state is state
    assert refused.value.span is not None
