CREATE CHANGELOG counts AS
SELECT window_time, window_end, origin, COUNT(*) AS flights
FROM TUMBLE(flights, SIZE 1 HOUR)
GROUP BY window_start, window_end, window_time, 3;
