SELECT carrier, distance FROM flights UNION ALL SELECT note, distance FROM arrivals;
