CREATE CHANGELOG traffic AS
SELECT window_start, window_end, city, SUM(seats) AS seats
FROM TUMBLE((
  SELECT f.flight_time, o.city, d.people AS seats
  FROM flights f
  JOIN cities o WITH ('lookup.refresh.millis' = 60000) ON o.code = f.origin
  JOIN cities d ON d.code = f.dest AND d.people = CAST(f.distance AS BIGINT) AND d.city <> o.city
), SIZE 1 MINUTE)
GROUP BY window_start, window_end, city;
