CREATE CHANGELOG big AS SELECT p.tailnum, p.maker, r.origin, r.dest, r.miles FROM planes p LEFT JOIN routes r ON p.maker = r.dest AND r.miles > p.seats WHERE p.seats > 5;
