CREATE STREAM booked AS
SELECT f.carrier, b.seat, DECODE(rowheaders(b)['trace'], 'UTF-8') AS trace
FROM flights f WITH ('timestamp' = 'departed')
JOIN bookings b WITHIN 5 MINUTES ON f.tailnum = b.tailnum;
