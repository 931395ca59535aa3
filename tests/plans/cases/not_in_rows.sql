CREATE CHANGELOG unserved AS
SELECT tailnum FROM planes AS p WHERE (p.maker, p.tailnum) NOT IN (SELECT carrier, tailnum FROM flights);
