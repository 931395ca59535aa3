CREATE CHANGELOG by_minute AS
SELECT window_start, window_end, carrier, COUNT(*) AS flights, COUNT(DISTINCT tailnum) AS planes, AVG(delay) AS delay
FROM TUMBLE(flights, SIZE 1 MINUTE) WITH ('source.idle.timeout.millis' = 1000, 'source.allow.latency.millis' = 30000)
WHERE NOT cancelled
GROUP BY window_start, window_end, carrier
HAVING COUNT(*) > 2;
