CREATE CHANGELOG per_carrier AS SELECT carrier, COUNT(*) AS flights, SUM(fare) AS fares FROM flights GROUP BY carrier;
