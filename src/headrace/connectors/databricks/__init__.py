"""Databricks: Delta tables of Unity Catalog, written and read through a SQL warehouse, with files in a bucket on the way there.

Start at `admin.py`, which describes the store type; `options.py` has its properties. ADR 32 says how rows come there exactly once.
"""
