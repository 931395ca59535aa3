CREATE STREAM departures AS SELECT flight_time, carrier, dest FROM flights WHERE NOT cancelled ORDER BY flight_time;
