SELECT f.carrier, b.seat FROM flights f LEFT JOIN bookings b WITHIN 1 DAY ON b.tailnum = f.tailnum;
