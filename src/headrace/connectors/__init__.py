"""Store types: one folder each behind one small protocol.

Role: everything that is particular to a kind of external system. Nothing outside a store type's folder names it.
Entry points: `registry.connector(type)`, `base.Connector`.
May import: core, runtime, formats, sql; pyspark only in `<type>/spark.py`, which only a driver imports.
To add a store type: a folder with `options.py`, `admin.py` (class ending in `Connector`) and `spark.py`, and one entry
in `registry.CONNECTORS`.
"""
