SELECT f.carrier, b.flights FROM flights AS f JOIN busiest AS b ON f.carrier = b.carrier;
