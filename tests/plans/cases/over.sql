CREATE STREAM running AS
SELECT carrier, flight_time, distance + 1 AS further,
       SUM(distance) OVER (PARTITION BY carrier ORDER BY flight_time) AS total,
       AVG(fare) OVER (PARTITION BY carrier ORDER BY flight_time ROWS 2 PRECEDING) * 2 AS twice,
       COUNT(*) FILTER (WHERE cancelled) OVER (PARTITION BY carrier ORDER BY flight_time RANGE BETWEEN 60000 PRECEDING AND CURRENT ROW) AS cancelled,
       LAG(note, 2, 'none') OVER (PARTITION BY carrier ORDER BY flight_time) AS before,
       ROW_NUMBER() OVER (ORDER BY flight_time) AS number
FROM flights
WHERE delay > 0
