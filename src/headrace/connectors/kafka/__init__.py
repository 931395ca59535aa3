"""Apache Kafka and what speaks its protocol.

Role: the store type KAFKA. Entry points: `admin.KAFKA` (its descriptor), `spark.source` and `spark.sink` (driver).
May import: core, formats, connectors.base, confluent_kafka; pyspark only in `spark.py`.
To add a property: its `PropertySpec` in `options.py`, and for a store its mapping in `client.py`.
"""
