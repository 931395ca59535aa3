CREATE STREAM drawn AS SELECT carrier, UUID() AS id, RAND() AS luck, NOW() AS at, RAND() + delay AS more FROM flights;
