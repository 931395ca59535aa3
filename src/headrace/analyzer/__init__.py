"""Binding: from a parsed SELECT to a typed logical plan, with names, types, change kinds, and the rules of the language.

Role: pure; asks nobody, changes nothing. It sees the catalog through `catalog.CatalogState`, and store types through the
connector registry that the caller hands in.
Entry points: `bind(select, …)` → `plan.LogicalPlan`; `traits.traits(node)`; `functions.CATALOGUE`; `logical.walk`.
May import: connectors, catalog, formats, sql, runtime, core. Never pyspark, never planner.
To add a function: one row in `functions/`. To add a rule of the language: one function in `checks.CHECKS`.
To add a node: a dataclass in `logical.py`, what is known of its rows in `traits.py`; then its mode in `planner/modes.py`, its function in
`planner/lowering/`, its line in `planner/explain.py`.
"""

from headrace.analyzer.binder import bind
from headrace.analyzer.catalog_view import BindingContext
from headrace.analyzer.plan import LogicalPlan

__all__ = ["BindingContext", "LogicalPlan", "bind"]
