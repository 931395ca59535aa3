"""Each statement of the grammar has one handler that declares its requirements, and a place in the documentation."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import headrace.sql.statements as grammars
from headrace.sql import parse
from headrace.sql.ast import Statement
from headrace.sql.grammar import GRAMMAR
from headrace.statements.base import HANDLERS, REQUIREMENTS
from headrace.statements.registry import MODULES, first_word, only_reads_catalog

ROOT = Path(__file__).parents[3]


def statements() -> list[type[Statement]]:
    """Every statement class of the grammar."""
    for module in pkgutil.iter_modules(grammars.__path__):
        importlib.import_module(f"{grammars.__name__}.{module.name}")
    return sorted(Statement.__subclasses__(), key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", statements(), ids=lambda kind: kind.__name__)
def test_a_statement_has_a_handler_that_declares_what_it_requires(kind: type[Statement]) -> None:
    assert kind in HANDLERS
    assert kind in REQUIREMENTS


def test_every_handler_module_is_registered() -> None:
    files = {path.stem for path in (ROOT / "src/headrace/statements").glob("*.py")}
    parts = {
        "__init__",
        "accepted_properties",
        "archive",
        "base",
        "completion",
        "definitions",
        "desired_state",
        "dropping",
        "exclusive",
        "function_class",
        "registry",
        "relation_properties",
        "inference",
        "jar",
        "language",
        "python_function",
        "python_package",
        "query_names",
        "record_filter",
        "record_text",
        "resuming",
        "schemas",
        "tables",
    }
    assert files - parts == set(MODULES)


@pytest.mark.parametrize("kind", statements(), ids=lambda kind: kind.__name__)
def test_a_statement_is_documented(kind: type[Statement]) -> None:
    page = (ROOT / "docs/reference/statements.md").read_text()
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.__name__)
    assert f"<!-- {kind.__name__} -->" in page, f"describe {words} in docs/reference/statements.md"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("/* a */ list/**/databases", "LIST"),
        ("-- a\nSHOW--b\nDATABASES", "SHOW"),
        ("(SELECT 1)", ""),
        ("WITH q AS (SELECT 1 AS n) SELECT n FROM q", "WITH"),
    ],
)
def test_the_first_word_of_a_statement_is_not_a_comment(text: str, word: str) -> None:
    (statement,) = parse(text)
    assert first_word(statement) == word
    assert only_reads_catalog(statement)


@pytest.mark.parametrize(
    "text",
    [
        "LIST ENTITIES",
        "LIST ENTITIES LIKE 'a%'",
        "DESCRIBE ENTITY e",
        "DESCRIBE ENTITY e WHERE name = 'e'",
        "EXPLAIN CREATE STREAM s AS SELECT n FROM t",
        "DESCRIBE INSERT INTO s SELECT n FROM t",
        "EXPLAIN ALTER QUERY q AS SELECT n FROM t",
        "EXPLAIN BEGIN APPLICATION a CREATE STREAM s (n BIGINT) WITH ('topic' = 't'); END APPLICATION",
        "PRINT ENTITY e",
        "TEST STORE s",
        "GENERATE COLUMNS WITH ('topic' = 't', 'value.format' = AVRO)",
        "SET DEFAULT DATABASE d",
    ],
)
def test_what_a_store_must_answer_does_not_only_read_the_catalog(text: str) -> None:
    (statement,) = parse(text)
    assert not only_reads_catalog(statement)


def test_what_a_server_that_stands_by_accepts_is_known() -> None:
    """Look at a new statement before it is added here: on such a server it may neither write nor contact another system."""
    described = (
        "ALERT API_TOKEN CHANGELOG COMPUTE_POOL DATABASE DESCRIPTOR_SOURCE ENTITY FUNCTION FUNCTION_SOURCE MATERIALIZED_VIEW ORGANIZATION "
        "QUERY RELATION ROLE SAVEPOINT SCHEMA SCHEMA_REGISTRY SECRET STORE STREAM TABLE USER VIEW"
    )
    listed = (
        "ALERTS API_TOKENS CHANGELOGS COMPUTE_POOLS DATABASES DESCRIPTORS DESCRIPTOR_SOURCES ENTITIES FUNCTIONS FUNCTION_SOURCES "
        "FUTURE_GRANTS GRANTS INVITATIONS MATERIALIZED_VIEWS ORGANIZATIONS PARTITIONS QUERIES RELATIONS ROLES SAVEPOINTS SCHEMAS "
        "SCHEMA_REGISTRIES SECRETS STORES STREAMS TABLES USERS VIEWS"
    )
    expected = {
        "LIST": {*listed.split()},
        # The last ones begin a statement, whose plan is described.
        "DESCRIBE": {*described.split(), "BEGIN", "CREATE", "INSERT", "SELECT", "WITH", "("},
        "CAN": {"I", "ROLE"},
        "USE": {"COMPUTE_POOL", "DATABASE", "ORGANIZATION", "ROLE", "SCHEMA", "STORE"},
        "EXPLAIN": {"", "PLAN_FOR", "VERBOSE", "WHY"},
    }
    known = {
        first: {"_".join(words[1:]) for words in GRAMMAR if words[0] == first}
        for first in (*expected, "SHOW")
    }
    assert known == {**expected, "SHOW": set()}
