CREATE STREAM x AS SELECT f.carrier, b.seat, p.maker FROM flights f JOIN bookings b WITHIN 5 MINUTES ON f.tailnum = b.tailnum JOIN planes p ON p.tailnum = f.tailnum;
