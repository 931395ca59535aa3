CREATE CHANGELOG largest AS
SELECT m.maker, t.tailnum, t.seats FROM (SELECT DISTINCT maker FROM planes) AS m,
LATERAL (SELECT tailnum, seats FROM planes WHERE maker = m.maker ORDER BY seats DESC LIMIT 3) AS t;
