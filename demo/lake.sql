-- ${bootstrap} is the broker's address, ${iceberg} and ${s3} those of a REST catalog and of its bucket's server, ${clickhouse} ClickHouse's.
CREATE DATABASE nyc;
USE DATABASE nyc;

CREATE STORE kafka WITH ('type' = KAFKA, 'uris' = '${bootstrap}', 'tls.disabled' = TRUE);
CREATE STORE lake WITH (
    'type' = ICEBERG_REST, 'uris' = '${iceberg}', 'tls.disabled' = TRUE, 'iceberg.s3.endpoint' = '${s3}',
    'aws.region' = '${region}', 'aws.access_key_id' = '${key}', 'aws.secret_access_key' = '${secret}'
);
CREATE STORE facts WITH (
    'type' = CLICKHOUSE, 'uris' = '${clickhouse}', 'tls.disabled' = TRUE, 'clickhouse.username' = '${user}', 'clickhouse.password' = '${password}'
);
CREATE ENTITY nyc IN STORE lake;
USE STORE kafka;

CREATE STREAM flights (
    carrier VARCHAR, flight INTEGER, tailnum VARCHAR, origin VARCHAR, dest VARCHAR, scheduled BIGINT,
    dep_delay DOUBLE, arr_delay DOUBLE, air_time DOUBLE, distance INTEGER
) WITH (
    'topic' = 'flights', 'topic.partitions' = 3, 'topic.replicas' = 1, 'kafka.topic.retention.ms' = '-1',
    'value.format' = JSON, 'timestamp' = 'scheduled'
);

-- Every flight into a table of Iceberg, a folder for each origin.
CREATE TABLE flights_lake WITH (
    'store' = 'lake', 'iceberg.namespace.name' = 'nyc', 'iceberg.partition.by' = 'origin', 'delivery.guarantee' = 'exactly_once'
) AS SELECT * FROM flights WITH ('starting.position' = 'earliest');

-- The same into a table of ClickHouse.
CREATE TABLE flights_facts WITH (
    'store' = 'facts', 'clickhouse.db.name' = 'default', 'delivery.guarantee' = 'exactly_once'
) AS SELECT * FROM flights WITH ('starting.position' = 'earliest');

-- Totals per carrier, upserted by their key.
CREATE TABLE carrier_totals WITH ('store' = 'facts', 'clickhouse.db.name' = 'default') AS
SELECT carrier, COUNT(*) AS departures, SUM(distance) AS miles, AVG(arr_delay) AS mean_arrival_delay
FROM flights WITH ('starting.position' = 'earliest')
GROUP BY carrier;
