SELECT 1000 * UNIX_TIMESTAMP(CAST(window_start AS STRING)) + EXTRACT(MILLISECOND FROM window_start) AS start_ms,
       SUM(CASE WHEN cancelled THEN 1 ELSE 0 END) > 0 AS any_cancelled
FROM HOP(flights, SIZE 5 MINUTES, ADVANCE BY 30 SECONDS) AS f WITH ('source.allow.future.millis' = 0)
GROUP BY f.origin, window_end, window_start;
