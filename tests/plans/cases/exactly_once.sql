CREATE STREAM copy WITH ('delivery.guarantee' = 'exactly_once', 'kafka.producer.linger.ms' = 5) AS SELECT carrier, distance FROM flights PARTITION BY carrier;
