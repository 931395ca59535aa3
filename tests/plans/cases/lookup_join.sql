CREATE STREAM landed AS
SELECT f.flight_time, f.tailnum, c.city, c.people
FROM flights f LEFT JOIN cities c ON f.dest = c.code AND c.country = 'NZ' AND f.distance < c.people
WHERE f.cancelled = FALSE;
