"""Snowflake: tables as entities, written by staged files and read by queries, over Snowflake's own client (an extra).

Start at `admin.py`, which describes the store type; `options.py` has its properties. ADR 30 says how rows come there exactly once, and
what of it was tested against what.
"""
