SELECT origin, window_time, n, MAX(n) OVER (PARTITION BY origin ORDER BY window_time RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW) AS most
FROM (SELECT window_start, window_time, window_end, origin, COUNT(*) AS n FROM TUMBLE(flights, SIZE 5 MINUTES) GROUP BY window_start, window_time, window_end, origin)
