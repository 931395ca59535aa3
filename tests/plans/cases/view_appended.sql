CREATE MATERIALIZED VIEW recent AS SELECT carrier, delay, departed FROM flights WITH ('source.deserialization.error.handling' = IGNORE);
