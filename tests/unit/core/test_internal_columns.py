"""Internal columns: one prefix in Python, Scala and SQL, with which no user's name may start."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.core import internal_columns
from headrace.core.errors import UserError
from headrace.core.internal_columns import PREFIX
from headrace.core.names import Identifier
from headrace.core.sqlstate import SqlState
from headrace.sql import parse

ROOT = Path(__file__).resolve().parents[3]


def test_python_and_scala_name_internal_columns_alike() -> None:
    source = ROOT / "jvm/src/main/scala/io/headrace/spark/InternalColumns.scala"
    text = source.read_text(encoding="utf-8")
    of_python = {value for name, value in vars(internal_columns).items() if name.isupper()}
    assert re.findall(r'val Prefix = "(.*)"', text) == [PREFIX]
    of_scala = {f"{PREFIX}{name}" for name in re.findall(r'prefix \+ "([a-z]+)"', text)}
    assert len(of_scala) == 5
    assert of_scala <= of_python
    (setting,) = re.findall(r'val Setting = "(.*)"', text)
    assert f'"{setting}"' in (ROOT / "src/headrace/engine/driver/builder.py").read_text(encoding="utf-8")


def test_no_other_file_spells_the_name_of_an_internal_column() -> None:
    named = re.compile(r"""["'` ]__[a-z][a-z_0-9]*[a-z0-9]\b(?!_)""")
    # Of older plans; of the JSON lines of the shell; of Kafka's topics.
    exempt = {"formats/spark.py", "cli/output.py", "connectors/kafka/patterns.py"}
    spellings = {
        f"{path.relative_to(ROOT)}: {match}"
        for folder in ("analyzer", "planner", "engine/driver", "connectors", "formats", "cli", "session")
        for path in (ROOT / "src/headrace" / folder).rglob("*.py")
        if str(path.relative_to(ROOT / "src/headrace")) not in exempt
        for match in named.findall(path.read_text(encoding="utf-8"))
    }
    assert spellings == set()
    for path in (ROOT / "jvm/src/main").rglob("*.scala"):
        if path.name != "InternalColumns.scala":
            assert not named.findall(path.read_text(encoding="utf-8")), path


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT a AS {PREFIX}op FROM t",
        f'SELECT a FROM t AS "{PREFIX}query_1"',
        f"SELECT {PREFIX.upper()}ROWTIME FROM t",
        f"CREATE STREAM s (id BIGINT, `{PREFIX}x` VARCHAR) WITH ('store' = 'k', 'topic' = 't', 'value.format' = JSON)",
    ],
)
def test_no_statement_contains_a_name_with_the_prefix(text: str) -> None:
    with pytest.raises(UserError, match="reserved for the columns of queries") as refusal:
        parse(text)
    assert refusal.value.state is SqlState.SYNTAX_ERROR
    assert refusal.value.span is not None
    assert text[refusal.value.span.start : refusal.value.span.end].strip('"`').lower().startswith(PREFIX)


def test_no_column_of_a_store_has_a_name_with_the_prefix() -> None:
    with pytest.raises(UserError, match="reserved for the columns of queries"):
        Identifier(f"{PREFIX}op")


def test_names_that_were_internal_once_are_names() -> None:
    assert parse("SELECT __op, __deleted AS __rowtime, a.__key_1 FROM t AS a")
    assert Identifier("__op").name == "__op"
