"""The store types for Apache Iceberg: tables of a REST catalog (ICEBERG_REST) and of AWS Glue (ICEBERG_GLUE), with their files on S3.

`options` says what may be given, `admin` is the control plane's half, over `rest` and `glue`, which ask the catalogs; `metadata` is
what the table format calls columns, types and partitions. `spark` is the driver's half. ADR 22 says why it is so.
"""
