"""The store types for Apache Iceberg: tables of a REST catalog (ICEBERG_REST) and of AWS Glue (ICEBERG_GLUE), with their files on S3.

`options` declares the properties. `admin` is the control plane's half, over the catalog clients `rest` and `glue`; `metadata` reads and
writes the table format's columns, types and partitions. `spark` is the driver's half. ADR 22 gives the reasons.
"""
