CREATE CHANGELOG answers AS
SELECT p.tailnum, EXISTS (SELECT 1 FROM flights AS f WHERE f.tailnum = p.tailnum) AS flies,
CASE WHEN p.seats IN (SELECT distance FROM flights) THEN 1 ELSE 0 END AS known FROM planes AS p;
