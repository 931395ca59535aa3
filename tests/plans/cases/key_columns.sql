CREATE STREAM keyed WITH ('key.columns' = 'carrier,origin', 'key.format' = JSON, 'topic.partitions' = 6) AS SELECT carrier, origin, distance FROM flights;
