"""Stored plans of earlier versions, made into plans of the present one: JSON to JSON, one function a version.

A query that was created by an earlier release goes on from its checkpoint, so an upgrade changes how a plan is written down and
never what Spark makes of it: the SQL texts and the order of the stateful steps are what the checkpoint's state stands on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.core.errors import UserError
from headrace.core.internal_columns import PREFIX_BEFORE_VERSION_4
from headrace.core.sqlstate import SqlState

Upgrade = Callable[[dict[str, Any]], dict[str, Any]]


def _to_2(plan: dict[str, Any]) -> dict[str, Any]:
    """Return the plan in version 2, which names its outputs; before, the last step was the only one."""
    return {**plan, "version": 2, "outputs": [step["id"] for step in plan["steps"][-1:]]}


def _to_3(plan: dict[str, Any]) -> dict[str, Any]:
    """Return the plan in version 3, with entities by path, formats as values, and row metadata in other columns, which the SQL keeps
    under the old names."""
    return {**plan, "version": 3, "steps": [_step_to_3(step) for step in plan["steps"]]}


def _step_to_3(step: dict[str, Any]) -> dict[str, Any]:
    match step["step"]:
        case "read_entity" | "write_entity":
            return {**step, "entity": [step["entity"]]}
        case "decode_rows":
            # Times were read in either layout, whatever the step specified.
            return {**_with_formats(step, None), "flat_metadata": True}
        case "encode_rows":
            return _with_formats(step, step["timestamp_format"])
    return step


def _with_formats(step: dict[str, Any], times: str | None) -> dict[str, Any]:
    old = ("value_format", "key_format", "timestamp_format")
    formats = {
        "json": {"format": "json", "timestamps": None if times == "sql" else times},
        "primitive": {"format": "primitive"},
        None: None,
    }
    others = {name: value for name, value in step.items() if name not in old}
    return {**others, "value": formats[step["value_format"]], "key": formats[step["key_format"]]}


def _to_4(plan: dict[str, Any]) -> dict[str, Any]:
    """Keep the names of internal columns, which stored state depends on: version 4 specifies their prefix."""
    return {**plan, "version": 4, "internal_prefix": PREFIX_BEFORE_VERSION_4}


def _to_5(plan: dict[str, Any]) -> dict[str, Any]:
    """Return the plan without the list of groupings, which version 5 adds and which cannot be read out of the SQL."""
    return {**plan, "version": 5, "groupings": None}


UPGRADES: Mapping[int, Upgrade] = {1: _to_2, 2: _to_3, 3: _to_4, 4: _to_5}
"""Plan version to the function that converts it to the next version."""


class UnreadablePlanError(UserError):
    """A stored plan of another release, 0A000. Whatever looks at all queries leaves out one with such a plan: its own start reports it."""

    def __init__(self, differences: int) -> None:
        super().__init__(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"the stored plan of the query is of another version of Headrace ({differences} differences)",
            hint="Another release created it. Run the query with that release, or TERMINATE it and create it again.",
        )


STATE_LEFT_BEHIND: Mapping[int, frozenset[str]] = {1: frozenset({"temporal_join"})}
"""Plan version to the steps whose state this release cannot read, since its format has changed."""


def refuse_unreadable_state(plan: dict[str, Any]) -> None:
    """Raise UserError 0A000 if an operator of a stored plan, whose query has a checkpoint, cannot read its state."""
    left = STATE_LEFT_BEHIND.get(plan.get("version", 0), frozenset())
    unreadable = sorted({step["step"].replace("_", " ") for step in plan["steps"] if step["step"] in left})
    if unreadable:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"the checkpoint contains the state of a {' and a '.join(unreadable)} in the format of an earlier "
            "release, which this release does not read",
            hint=(
                "Nothing was changed: the earlier release can continue the query. In this release, "
                "TERMINATE the query and create it again."
            ),
        )


def upgraded(plan: dict[str, Any]) -> dict[str, Any]:
    """Return the plan in the newest version there is a way to; a plan of an unknown version is returned unchanged."""
    while (upgrade := UPGRADES.get(plan.get("version", 0))) is not None:
        plan = upgrade(plan)
    return plan
