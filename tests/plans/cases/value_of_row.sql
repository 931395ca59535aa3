CREATE CHANGELOG use AS
SELECT p.tailnum, (SELECT COUNT(*) FROM flights AS f WHERE f.tailnum = p.tailnum) AS flights FROM planes AS p
WHERE p.seats > (SELECT AVG(distance) FROM flights AS f WHERE f.carrier = p.maker);
