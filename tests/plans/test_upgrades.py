"""Plans that earlier releases stored still run: `version_<n>/` holds some as they were written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.core.errors import UserError
from headrace.formats.json import Json
from headrace.planner.physical import PLAN_VERSION, DecodeRows, EncodeRows, SparkPlan, Step
from headrace.planner.upgrades import UPGRADES, refuse_unreadable_state

STORED = sorted(Path(__file__).parent.glob("version_*/*.json"))


@pytest.mark.parametrize("path", STORED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_stored_plan_says_the_same_in_the_present_version(path: Path) -> None:
    stored = json.loads(path.read_text())
    plan = SparkPlan.from_json(path.read_text())
    assert plan.version == PLAN_VERSION
    assert plan.outputs == stored.get("outputs", [stored["steps"][-1]["id"]])
    assert (plan.mode, plan.output_mode) == (stored["mode"], stored["output_mode"])
    # What Spark's state stands on: the steps with their SQL, in order, and the names of their columns.
    steps = [_as_then(step) if stored["version"] < 3 else step.model_dump() for step in plan.steps]
    assert _as_far_as(stored["steps"], steps) == stored["steps"]
    assert plan.internal_prefix == stored.get("internal_prefix", "__")
    assert plan.groupings is None


def _as_then(step: Step) -> dict[str, Any]:
    """Return a step in the form before version 3: an entity was a text, a format a name with the layout of its times beside it, and a
    record's place was in other columns, as it still is for those plans."""
    if isinstance(step, DecodeRows):
        assert step.flat_metadata
    now = step.model_dump()
    if isinstance(step, DecodeRows | EncodeRows):
        assert isinstance(step.value, Json)
        now["value_format"], now["timestamp_format"] = step.value.format, step.value.timestamps or "sql"
        now["key_format"] = step.key and step.key.format
    return {**now, "entity": ".".join(now["entity"])} if "entity" in now else now


def _as_far_as(then: Any, now: Any) -> Any:
    """Return the parts of `now` that `then` contains: later releases may add fields with defaults."""
    if isinstance(then, dict):
        return {key: _as_far_as(value, now[key]) for key, value in then.items()}
    if isinstance(then, list):
        return [_as_far_as(old, new) for old, new in zip(then, now, strict=True)]
    return now


def test_state_that_cannot_be_read_is_refused_by_name() -> None:
    stored = {path.stem: json.loads(path.read_text()) for path in STORED}
    with pytest.raises(UserError, match="temporal join"):
        refuse_unreadable_state(stored["temporal_join_chain"])
    refuse_unreadable_state(stored["tumble"])
    # Spark's own join, in a text of SQL: it keeps its state, though new plans have a step of ours.
    refuse_unreadable_state(stored["interval_left_join"])
    refuse_unreadable_state(
        json.loads(SparkPlan.from_json(json.dumps(stored["temporal_join_chain"])).to_json())
    )


def test_there_is_a_way_from_every_version() -> None:
    assert sorted(UPGRADES) == list(range(1, PLAN_VERSION))
    assert {path.parent.name for path in STORED} == {f"version_{version}" for version in UPGRADES}
