CREATE CHANGELOG kinds AS
SELECT window_start, window_end, SUM(DISTINCT distance) AS distances, AVG(DISTINCT delay) AS delay, AVG(DISTINCT fare) AS fare, MAX(DISTINCT carrier) AS last
FROM TUMBLE(flights, SIZE 1 HOUR) GROUP BY window_start, window_end;
