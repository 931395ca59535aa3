"""Layouts of records: from bytes of a store to columns, and back.

Entry points: `base.Format` (what a format is; a module for each, `known.AnyFormat` for all), `types.spark_type` (a data type as
Spark writes it), `base.DecodeSpec` and `base.EncodeSpec` (what to do), `spark.decode` and `spark.encode` (doing it, on DataFrames).
May import: core; pyspark only in `spark`. Everything else here is pure text, so that it is tested without a JVM.
To add a format: a module with its class, and the class in `known`; a decoder beside `JsonDecoder` in jvm/ where SQL will not do.
"""
