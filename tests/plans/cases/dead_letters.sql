CREATE STREAM sure AS SELECT carrier, delay FROM flights WITH ('source.deserialization.error.handling' = DEAD_LETTER, 'source.deserialization.error.log.topic' = 'flights-to-mend');
