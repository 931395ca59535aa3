"""Columns that would stand beside a hidden one of their name are refused where they are declared, and not in the first batch."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.session import Session
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.planner.physical import is_hidden

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", ["__op", "__deleted", '"__rowtime"', "__key_1"])
async def test_a_declared_column_of_a_hidden_name_is_refused(session: Session, name: str) -> None:
    await session.run("USE DATABASE shop")
    text = f"CREATE STREAM s (id BIGINT, {name} VARCHAR) WITH ('store' = 'k', 'topic' = 't', 'value.format' = JSON)"
    with pytest.raises(UserError, match="is reserved") as refusal:
        await session.run(text)
    assert refusal.value.state is SqlState.INVALID_RELATION_DEFINITION
    assert refusal.value.span is not None
    assert text[refusal.value.span.start : refusal.value.span.end] == name


def test_every_hidden_name_of_the_planner_and_the_drivers_is_reserved() -> None:
    names = set()
    for folder in ("planner/lowering", "engine/driver", "connectors", "formats"):
        for path in (ROOT / "src/headrace" / folder).rglob("*.py"):
            names |= set(re.findall(r'"(__[a-z][a-z_]*[a-z])"', path.read_text(encoding="utf-8")))
    of_python = {"__main__", "__init__", "__future__", "__all__", "__name__", "__folder"}
    assert {name for name in names - of_python if not is_hidden(name)} == set()
    assert not is_hidden("__source_ts_ms")
    assert not is_hidden("op")
