CREATE CHANGELOG rows_of_planes WITH ('topic' = 'rows_of_planes') AS
SELECT p.tailnum, l.kind, COUNT(*) AS n FROM planes AS p,
LATERAL (SELECT DISTINCT carrier AS kind FROM flights AS f WHERE f.tailnum = p.tailnum UNION ALL SELECT dest FROM flights AS f WHERE f.tailnum = p.tailnum) AS l
GROUP BY p.tailnum, l.kind;
