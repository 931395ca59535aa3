"""Databricks: Delta tables of Unity Catalog, written and read through a SQL warehouse, with staging files in a bucket.

Start at `admin.py`, which describes the store type; `options.py` has its properties. ADR 32 describes exactly-once writes.
"""
