SELECT sensor, at, level, window_end FROM TUMBLE((SELECT * FROM readings WHERE level > 0), SIZE 1 HOUR);
