"""The process of a compute pool: one Spark driver that runs plans as streaming queries. `python -m headrace.engine.driver`.

It receives everything in messages (`engine.protocol`) over one Unix socket and ends when that does.
Entry points: `__main__` (the process), `service.DriverService` (messages to actions), `builder.build` (a plan's steps to a
DataFrame), `query.RunningQuery` (one query's life).
May import: planner.physical, connectors.*.spark, formats, runtime, core and pyspark; never catalog, statements, session, server.
To add a step kind: a function in `builder.py` and its row in `BUILDERS`. To add a sink: one in `sinks.py` and its row in `SINKS`.
"""
