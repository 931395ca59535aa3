CREATE CHANGELOG carriers AS SELECT carrier, COUNT(DISTINCT dest) AS n, AVG(fare) AS fare FROM flights GROUP BY carrier QUERY WITH ('state.ttl.millis' = 60000);
