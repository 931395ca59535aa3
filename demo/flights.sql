-- What a user types. ${bootstrap} is the broker's address; everything else is plain Headrace SQL.

CREATE DATABASE nyc;
USE DATABASE nyc;

CREATE STORE kafka WITH ('type' = KAFKA, 'uris' = '${bootstrap}', 'tls.disabled' = TRUE);
USE STORE kafka;

CREATE STREAM flights (
    carrier VARCHAR, flight INTEGER, tailnum VARCHAR, origin VARCHAR, dest VARCHAR, scheduled BIGINT,
    dep_delay DOUBLE, arr_delay DOUBLE, air_time DOUBLE, distance INTEGER
) WITH (
    'topic' = 'flights', 'topic.partitions' = 3, 'topic.replicas' = 1, 'kafka.topic.retention.ms' = '-1',
    'value.format' = JSON, 'key.format' = PRIMITIVE, 'key.type' = 'VARCHAR', 'timestamp' = 'scheduled'
);

CREATE STREAM weather (
    origin VARCHAR, observed BIGINT, temp DOUBLE, wind_speed DOUBLE, precip DOUBLE, visib DOUBLE
) WITH (
    'topic' = 'weather', 'topic.partitions' = 1, 'topic.replicas' = 1, 'kafka.topic.retention.ms' = '-1',
    'value.format' = JSON, 'timestamp' = 'observed'
);

CREATE CHANGELOG planes (
    tailnum VARCHAR, manufacturer VARCHAR, model VARCHAR, seats INTEGER, valid_from BIGINT, PRIMARY KEY (tailnum)
) WITH (
    'topic' = 'planes', 'topic.partitions' = 1, 'topic.replicas' = 1, 'kafka.topic.retention.ms' = '-1',
    'value.format' = JSON, 'timestamp' = 'valid_from'
);

CREATE CHANGELOG airlines (
    carrier VARCHAR, name VARCHAR, valid_from BIGINT, PRIMARY KEY (carrier)
) WITH (
    'topic' = 'airlines', 'topic.partitions' = 1, 'topic.replicas' = 1, 'kafka.topic.retention.ms' = '-1',
    'value.format' = JSON, 'timestamp' = 'valid_from'
);

CREATE CHANGELOG airports (
    faa VARCHAR, name VARCHAR, lat DOUBLE, lon DOUBLE, valid_from BIGINT, PRIMARY KEY (faa)
) WITH (
    'topic' = 'airports', 'topic.partitions' = 1, 'topic.replicas' = 1, 'kafka.topic.retention.ms' = '-1',
    'value.format' = JSON, 'timestamp' = 'valid_from'
);

-- A filter: flights that left more than an hour late.
CREATE STREAM late_departures AS
SELECT carrier, flight, origin, dest, scheduled, dep_delay
FROM flights WITH ('starting.position' = 'earliest')
WHERE dep_delay > 60;

-- Departures and their mean delay, per origin and hour; a window is final when the watermark has passed it.
CREATE CHANGELOG departures_by_hour WITH ('delivery.guarantee' = 'exactly_once') AS
SELECT window_start, window_end, origin, COUNT(*) AS departures, AVG(dep_delay) AS mean_delay
FROM TUMBLE(flights, SIZE 1 HOUR) WITH ('starting.position' = 'earliest')
GROUP BY window_start, window_end, origin;

-- Totals per carrier, kept up to date.
CREATE CHANGELOG carrier_totals AS
SELECT carrier, COUNT(*) AS departures, SUM(distance) AS miles, AVG(arr_delay) AS mean_arrival_delay
FROM flights WITH ('starting.position' = 'earliest')
GROUP BY carrier;

-- Each flight with the plane and the airline as they were when it left.
CREATE STREAM flights_enriched WITH ('delivery.guarantee' = 'exactly_once') AS
SELECT f.carrier, f.flight, f.scheduled, f.origin, f.dest, f.tailnum, p.manufacturer, p.model, p.seats, a.name AS airline
FROM flights AS f WITH ('starting.position' = 'earliest')
LEFT JOIN planes AS p WITH ('starting.position' = 'earliest', 'source.idle.timeout.millis' = 1000) ON f.tailnum = p.tailnum
LEFT JOIN airlines AS a WITH ('starting.position' = 'earliest', 'source.idle.timeout.millis' = 1000) ON f.carrier = a.carrier;

-- The worst routes, to be asked at any time.
CREATE MATERIALIZED VIEW route_delays AS
SELECT origin, dest, COUNT(*) AS departures, AVG(arr_delay) AS mean_arrival_delay, MAX(arr_delay) AS worst_arrival_delay
FROM flights WITH ('starting.position' = 'earliest')
GROUP BY origin, dest;
