CREATE CHANGELOG day AS SELECT window_start, window_end, carrier, SUM(fare) AS fare FROM CUMULATE(flights, SIZE 1 DAY, STEP BY 1 HOUR) GROUP BY window_start, window_end, carrier;
