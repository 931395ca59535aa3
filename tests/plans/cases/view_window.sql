CREATE CHANGELOG minutes AS SELECT window_start, window_end, COUNT(*) AS n FROM TUMBLE(far, SIZE 1 MINUTE) GROUP BY window_start, window_end;
