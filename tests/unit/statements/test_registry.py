"""Each statement of the grammar has one handler that declares its requirements, and a place in the documentation."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import headrace.sql.statements as grammars
from headrace.sql.ast import Statement
from headrace.statements.base import HANDLERS, REQUIREMENTS
from headrace.statements.registry import MODULES

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
