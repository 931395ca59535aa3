CREATE CHANGELOG by_maker AS SELECT maker, COUNT(*) AS n, SUM(seats) AS seats, MAX(built) + 1 AS newest FROM planes WHERE seats > 10 GROUP BY maker HAVING COUNT(*) > 1;
