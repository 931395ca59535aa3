"""Tests of pipelines: `.slt` files of statements, records and expected rows, run against a real server and a real broker.

Role: `headrace test`, and the runner of the project's own `.slt` files, which adds directives for other stores (`harness/slt.py`).
Entry points: `suite.run` for files as a user has them, `runner.Runner` for one file and a door of one's own.
May import: client, runtime, sql (to split texts), core; nothing of the server's inside.
To add a directive: a method of `Runner` and its line in `_directives`, and a row in `docs/guides/testing.md`.
"""
