"""How records are laid out: bytes of a store to columns, and back.

Entry points: `types.spark_type` (a data type as Spark writes it), `base.DecodeSpec` and `base.EncodeSpec` (what to do),
`spark.decode` and `spark.encode` (doing it, on DataFrames).
May import: core; pyspark only in `spark`. Everything else here is pure text, so that it is tested without a JVM.
To add a value format: a module like `json` that gives the same two pieces of SQL, and its name in `spark._VALUE_FORMATS`.
"""
