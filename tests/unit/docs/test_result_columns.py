"""The result columns that docs/reference/statements.md names are those that the statements answer with."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace.catalog.catalog import Catalog
from headrace.catalog.objects import Principal
from headrace.core.context import SessionContext
from headrace.core.resultset import ResultSet
from headrace.core.settings import Settings
from headrace.engine.engine import Engine
from headrace.session import StatementService
from headrace.sql import parse
from headrace.statements.base import Services

PAGE = Path(__file__).resolve().parents[3] / "docs/reference/statements.md"
ADMINISTRATOR = Principal("admin", ("sysadmin",), "sysadmin")


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[StatementService]:
    """The real service over an empty catalog. Its engine is not started: what is asked here needs no driver."""
    catalog = Catalog.open(tmp_path)
    catalog.create_database("shop", "sysadmin")
    settings = Settings(data_dir=tmp_path)
    engine = Engine(catalog, settings)
    yield StatementService(Services(catalog, engine, settings))
    engine.views.close()


@pytest.mark.parametrize(
    "text",
    [
        "LIST COMPUTE_POOLS",
        "LIST DATABASES",
        "LIST ORGANIZATIONS",
        "LIST QUERIES",
        "LIST RELATIONS",
        "LIST ROLES",
        "LIST SCHEMAS",
        "LIST STORES",
        "EXPLAIN SELECT 1",
        "DESCRIBE SELECT 1",
    ],
)
async def test_the_page_names_every_column(service: StatementService, text: str) -> None:
    (statement,) = parse(text)
    context = SessionContext("", database="shop")
    outcome = (await service.execute(text, principal=ADMINISTRATOR, context=context)).outcome
    assert isinstance(outcome, ResultSet)
    section = _section(type(statement).__name__)
    assert [column.name for column in outcome.columns if f"`{column.name}`" not in section] == []


async def test_the_page_names_the_columns_of_the_ddl_row(service: StatementService) -> None:
    executed = await service.execute(
        "CREATE DATABASE other", principal=ADMINISTRATOR, context=SessionContext("")
    )
    assert isinstance(executed.outcome, ResultSet)
    named = re.search(r"\*\*The DDL row\.\*\*(.*?)\n\n", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert named
    assert re.findall(r"`(\w+)`", named[1])[:5] == [column.name for column in executed.outcome.columns]


def _section(statement: str) -> str:
    found = re.search(
        rf"<!-- {statement} -->\n(.*?)(?=^##|\Z)", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert found, f"docs/reference/statements.md has no section {statement}"
    return found[1]
