CREATE STREAM enriched AS
SELECT f.carrier, f.tailnum, p.maker, rowtime(f) AS time
FROM flights f
JOIN planes p WITH ('source.idle.timeout.millis' = 1000, 'starting.position' = 'earliest') ON p.tailnum = f.tailnum
WHERE f.distance > 100 AND p.seats > 10
QUERY WITH ('state.ttl.millis' = 86400000);
