CREATE STREAM holds AS
SELECT m.carrier, m.began, m.ended, m.mean, m.flights
FROM flights MATCH_RECOGNIZE (
  PARTITION BY carrier
  ORDER BY flight_time, distance DESC
  MEASURES FIRST(late.delay) AS began, MATCH_ROWTIME() AS ended, AVG(late.delay) AS mean, COUNT(*) AS flights
  ONE ROW PER MATCH
  AFTER MATCH SKIP PAST LAST ROW
  PATTERN (late+ early) WITHIN 1 HOUR
  DEFINE late AS late.delay > 10 AND SUM(late.delay) < 1000, early AS delay <= 0 AND early.delay < LAST(late.delay, 1)
) AS m WITH ('starting.position' = 'earliest')
WHERE m.flights > 3
