"""Debezium's embedded engine as the oracle for changes of PostgreSQL tables, and as a measure of speed.

`make debezium` (`python -m tests.debezium`) gives both the same tables and the same statements, compares every change field by field, and
prints for each field: same, documented (different, for a reason that docs/guides/postgresql.md gives), or different, which fails.
Then both read the same changes from slots. It is not part of `make test`: the engine's jars are downloaded first (27 MB).
To add a case: a statement in `cases.STATEMENTS`, or a column in `cases.COLUMNS`.
"""
