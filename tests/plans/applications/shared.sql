BEGIN APPLICATION flights_app
  INSERT INTO arrivals SELECT carrier, distance, note FROM flights WHERE distance > 1000;
  CREATE STREAM keyed AS SELECT f.tailnum, f.delay FROM flights AS f;
  CREATE MATERIALIZED VIEW noted AS SELECT carrier, note FROM (SELECT * FROM flights WHERE note IS NOT NULL) AS some;
  CREATE MATERIALIZED VIEW early AS SELECT carrier FROM flights WITH ('starting.position' = 'earliest');
  CREATE CHANGELOG totals_too AS SELECT carrier, COUNT(*) AS flights FROM flights GROUP BY carrier;
  CREATE CHANGELOG hourly AS SELECT window_start, window_end, COUNT(*) AS n FROM TUMBLE(flights, SIZE 1 HOUR) GROUP BY window_start, window_end;
END APPLICATION
