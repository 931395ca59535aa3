SELECT d.carrier, c.name, SUM(d.minutes) / COUNT(*) AS mean, COUNT(DISTINCT d.day) AS days
FROM delays d LEFT JOIN carriers c ON c.carrier = d.carrier
WHERE d.day >= '2026-01-01' AND d.carrier LIKE 'A%'
GROUP BY d.carrier, c.name HAVING SUM(d.minutes) > 3
ORDER BY mean DESC, d.carrier LIMIT 10 OFFSET 2;
