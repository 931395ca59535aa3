CREATE CHANGELOG worst AS
SELECT p.maker, COUNT(*) AS n, (SELECT MAX(delay) FROM flights AS f WHERE f.carrier = p.maker) AS delay FROM planes AS p
GROUP BY p.maker HAVING SUM(p.seats) > (SELECT AVG(distance) FROM flights) AND COUNT(*) > 1;
