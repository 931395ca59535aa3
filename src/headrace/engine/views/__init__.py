"""Materialized views: the rows that continuous queries keep up to date, and SELECTs of them.

Start at `store.py`, which says what a store of views does; `duckdb.py` is the one in the data directory, `clickhouse.py` the one for
many rows, and `opening.py` chooses. `snapshots.py` has SELECTs evaluated by worker processes (`worker.py`). Nothing is imported here: a
worker starts in the time that its few imports take.
"""
