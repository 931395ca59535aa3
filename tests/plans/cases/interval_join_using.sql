CREATE STREAM booked AS
WITH late(tailnum, carrier, delay) AS (SELECT tailnum, carrier, delay FROM flights WHERE delay > 60)
SELECT tailnum, carrier, seat
FROM late LEFT JOIN bookings WITHIN 1 HOUR USING (tailnum)
WHERE seat IS NULL OR seat > 7;
