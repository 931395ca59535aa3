CREATE CHANGELOG use AS
SELECT p.tailnum, u.flights, u.delay FROM planes AS p
LEFT JOIN LATERAL (SELECT COUNT(*) AS flights, MAX(delay) AS delay FROM flights AS f WHERE f.tailnum = p.tailnum) AS u ON TRUE;
