CREATE CHANGELOG visits AS SELECT window_start, window_end, COUNT(*) AS n FROM SESSION(flights, GAP 5 MINUTES) GROUP BY window_start, window_end;
