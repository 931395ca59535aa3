CREATE STREAM some AS SELECT carrier, delay FROM flights LIMIT 3 OFFSET 2;
