CREATE STREAM near AS SELECT f.carrier, b.seat FROM flights f FULL JOIN bookings b WITHIN 5 MINUTES ON f.tailnum = b.tailnum;
