CREATE STREAM names AS
SELECT shorten(f.carrier, 2) AS carrier, plus(f.distance, 1) AS distance
FROM flights AS f WITH ('source.function.error.handling' = DEAD_LETTER);
