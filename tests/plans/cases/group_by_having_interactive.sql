SELECT carrier, COUNT(*) AS flights FROM flights GROUP BY carrier HAVING COUNT(*) > 10;
