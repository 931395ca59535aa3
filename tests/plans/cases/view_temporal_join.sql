CREATE STREAM with_maker AS SELECT f.carrier, v.maker FROM flights AS f LEFT JOIN fleet AS v ON f.tailnum = v.plane WHERE f.distance > 10;
