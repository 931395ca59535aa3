CREATE MATERIALIZED VIEW remarks AS
SELECT shorten(carrier, 2) AS airline, w.word, weighted(f.delay, f.distance) FILTER (WHERE NOT f.cancelled) AS mean, MAX(plus(f.distance, 1)) AS furthest
FROM flights f CROSS JOIN LATERAL TABLE(words(f.note)) AS w WHERE shorten(f.note) <> 'n/a' GROUP BY shorten(carrier, 2), w.word;
