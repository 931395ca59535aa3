"""The PostgreSQL door: PostgreSQL's clients run statements and read views, tables and system relations (docs/adr/0061).

Role: the frontend/backend protocol, version 3, over the session layer. Off unless HEADRACE_POSTGRES_PORT is set.
Entry point: `door.PostgresDoor`. `wire` has bytes and flow control, `messages` their format, `types` OIDs and values, `parameters` the
values of `$1`, `connection` the protocol's states, `dispatch` the statements, `catalog` the answers to queries of `pg_catalog`.
"""
