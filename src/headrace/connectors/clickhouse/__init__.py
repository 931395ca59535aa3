"""ClickHouse: tables as entities, read and written over its HTTP interface.

Start at `admin.py`, which describes the store type; `options.py` has its properties. ADR 23 describes exactly-once writes.
"""
