"""Execution of statements: one module per object kind, one handler per statement.

Role: the only code that changes the catalog or a store on a user's behalf. Entry point: `registry.execute`.
May import: engine, planner, analyzer, connectors, catalog, formats, sql, core. Handlers of different modules are strangers, save
for `base` and the pieces named there.
To add a statement: its class and grammar in `sql/statements/<kind>.py`, a function under `@handles` in `statements/<kind>.py` (a new
module is named in `registry.MODULES`), an `.slt` file and a section in `docs/reference/statements.md`. CONTRIBUTING has the rest.
"""
