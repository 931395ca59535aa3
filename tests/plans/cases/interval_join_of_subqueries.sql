SELECT a.plane, b.seat
FROM (SELECT tailnum AS plane FROM flights UNION ALL SELECT note FROM arrivals) a
JOIN (SELECT seat, tailnum FROM bookings WHERE seat > 3) b WITHIN 3 SECONDS ON a.plane = b.tailnum;
