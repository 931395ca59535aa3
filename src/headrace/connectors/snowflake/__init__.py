"""Snowflake: tables as entities, written by staged files and read by queries, over Snowflake's own client (an extra).

Start at `admin.py`, which describes the store type; `options.py` has its properties. ADR 30 describes exactly-once writes and
the tests of each part.
"""
