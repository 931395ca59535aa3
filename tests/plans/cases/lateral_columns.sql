CREATE STREAM gained AS
SELECT carrier, hours, late FROM flights AS f, LATERAL (SELECT delay / 60 AS hours, delay > 15 AS late WHERE NOT cancelled) WHERE late;
