"""Apache Kafka and brokers with its protocol.

Role: the store types KAFKA and CONFLUENT_KAFKA. Entry points: `admin.KAFKA` (its descriptor), `spark.source` and `spark.sink` (driver).
May import: core, formats, connectors.base, confluent_kafka; pyspark only in `spark`, AWS's libraries only in `msk`.
To add a property: its `PropertySpec` in `options.py`, and for a store its mapping in `client.py`. To add a way to log in: its
properties in `options.py`, and the request of its token, if it uses one, in `tokens.py` (ADR 20).
"""
