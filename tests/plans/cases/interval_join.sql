CREATE STREAM booked AS
SELECT f.carrier, b.seat, f.tailnum
FROM flights f WITH ('timestamp' = 'departed')
JOIN bookings b WITHIN 5 MINUTES ON f.tailnum = b.tailnum
WHERE b.seat BETWEEN 1 AND 30;
