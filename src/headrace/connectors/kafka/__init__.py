"""Apache Kafka and what speaks its protocol.

Role: the store type KAFKA. Entry points: `admin.KafkaConnector` (control plane), `spark.source` and `spark.sink` (driver).
May import: core, formats, connectors.base, confluent_kafka; pyspark only in `spark.py`.
To add a store property: a field in `options.py` and its mapping in `client.py`.
"""
