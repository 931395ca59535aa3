CREATE CHANGELOG common AS
SELECT maker, COUNT(*) AS times FROM (SELECT maker FROM planes INTERSECT ALL SELECT carrier FROM flights) GROUP BY maker;
