CREATE STREAM enriched AS
SELECT f.carrier, p.maker, r.miles, a.city
FROM flights f
LEFT JOIN planes p ON f.tailnum = p.tailnum
JOIN routes r ON r.dest = f.dest AND r.origin = f.origin
LEFT JOIN airports a ON a.code = upper(f.dest)
WHERE f.delay > 0 AND p.seats > 10 AND f.distance < r.miles;
