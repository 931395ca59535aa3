CREATE CHANGELOG unserved AS
SELECT tailnum FROM planes AS p WHERE p.seats > 300 OR p.maker NOT IN (SELECT carrier FROM flights WHERE delay > 60);
