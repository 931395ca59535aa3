"""Execution of queries: reconciles the running queries with the catalog, and carries rows to readers and views.

Role: the control plane of query execution. Each compute pool is one Spark driver process; this package starts it, speaks `protocol` with
it and never imports pyspark itself (its subpackage `driver`, the other side of the socket, does).
Entry points: `engine.Engine` (the composition), `results.ResultChannel` (a live result), `views.opening.open_views` (materialized views).
Inside: `supervisor` (continuous queries), `interactive` (queries with a reader), `pools` (processes), `lifecycle` (what a failure means).
May import: planner, catalog, connectors, formats, runtime, core.
To add a message: a class in `protocol.py`, then its branch in `engine.Engine` or in the driver's `service`.
"""
