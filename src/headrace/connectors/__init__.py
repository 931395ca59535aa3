"""Store types: one folder each behind one small contract.

Role: everything that is particular to a kind of external system. Nothing outside a store type's folder names it.
Entry points: `registry.connector(type)`, `base.StoreDescriptor`.
May import: core, runtime, formats, sql; pyspark only in `<type>/spark`, which only a driver imports.
To add a store type: a folder with `options.py`, `admin.py` (its descriptor) and `spark`, and one line in `registry.STORE_TYPES`.
"""
