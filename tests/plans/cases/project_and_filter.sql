CREATE STREAM long_flights WITH ('topic' = 'long', 'delivery.guarantee' = 'at_least_once') AS
SELECT carrier, distance / 2 AS half, upper(origin) AS origin, crew->captain, stops[1] AS first_stop,
       rowtime() AS time, rowmeta()->"offset" AS place
FROM flights WITH ('starting.position' = 'earliest')
WHERE distance > 1000 AND note LIKE 'a\b%';
