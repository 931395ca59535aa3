CREATE STREAM measures AS
SELECT carrier, m.name, m.amount FROM flights, LATERAL (SELECT 'distance' AS name, distance AS amount UNION ALL SELECT 'delay', delay * 2) AS m;
