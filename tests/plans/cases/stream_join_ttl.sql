CREATE STREAM pairs AS SELECT f.carrier, b.seat FROM flights f JOIN bookings b ON f.tailnum = b.tailnum QUERY WITH ('state.ttl.millis' = 600000);
