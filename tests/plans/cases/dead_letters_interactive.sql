SELECT carrier, delay FROM flights WITH ('source.deserialization.error.handling' = IGNORE_AND_LOG);
