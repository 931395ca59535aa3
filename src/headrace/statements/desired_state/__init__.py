"""Comparison of a text, as the desired state, with what exists: which statements would create or change an object, and which are fulfilled.

Works on a draft of the catalog, as the check of a text does: nothing is run, and no store is contacted.
To add a kind of object: a module with a function under `@compares(…)`, and its name in `state.MODULES`.
"""

from __future__ import annotations

from headrace.statements.desired_state.state import DesiredState
from headrace.statements.desired_state.steps import Action, Plan, PlanStep

__all__ = ["Action", "DesiredState", "Plan", "PlanStep"]
