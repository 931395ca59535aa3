CREATE CHANGELOG heavy AS SELECT x.tailnum, x.s * 2 AS twice FROM (SELECT tailnum, seats AS s FROM planes WHERE maker <> 'x') x WHERE x.s > 100;
