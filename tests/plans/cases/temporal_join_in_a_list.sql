CREATE STREAM seats AS
SELECT f.tailnum, seats, miles
FROM flights AS f, planes WITH ('source.idle.timeout.millis' = 1000), routes AS r, UNNEST(f.stops) AS s(stop)
WHERE f.tailnum = planes.tailnum AND r.dest = f.dest AND f.origin = r.origin AND r.miles > f.distance AND s.stop <> f.dest;
