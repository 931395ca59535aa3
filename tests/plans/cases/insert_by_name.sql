INSERT INTO arrivals SELECT distance, carrier FROM flights;
