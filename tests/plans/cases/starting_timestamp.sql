SELECT carrier FROM arrivals WITH ('starting.position' = 'timestamp', 'starting.position.timestamp' = 1700000000000);
