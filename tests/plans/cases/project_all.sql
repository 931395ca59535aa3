SELECT * FROM bookings;
