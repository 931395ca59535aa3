CREATE CHANGELOG by_hour AS SELECT FLOOR(departed TO HOUR) AS hour, COUNT(*) AS flights FROM flights GROUP BY hour;
