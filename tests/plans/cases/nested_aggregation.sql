CREATE CHANGELOG sizes AS SELECT n, COUNT(*) AS carriers FROM (SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier) AS c GROUP BY n;
