SELECT window_start, window_end, x.carrier FROM TUMBLE(flights, SIZE 1 HOUR) AS x WHERE x.distance > 1;
