"""Planning: from a logical plan and a sink to a `SparkPlan`; from a query of materialized views to DuckDB SQL; and EXPLAIN of both.

Role: pure. It chooses physical steps, the mode (micro-batch or real-time) and says why; it asks no store and starts nothing.
Entry points: `plan_query(logical, sink)`, `sinks` (what a sink is and how it is inferred), `snapshot.compile_snapshot`,
`explain.explain`, `explain.describe`, `plan_columns`, `state_warning`.
May import: analyzer, connectors, catalog, formats, sql, runtime, core. `engine.protocol` and the driver read `physical` only.
To add a rewriting: a function in `rules.RULES`. To add an operator: its class in `physical.py`, its mode in `modes.py`, its function in
`lowering/`, what it keeps in `state.py`, its line in `explain.py`, and its builder in `engine.driver`.
"""

from headrace.planner.plan import plan_columns, plan_query, state_warning

__all__ = ["plan_columns", "plan_query", "state_warning"]
