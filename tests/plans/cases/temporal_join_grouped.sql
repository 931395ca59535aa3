CREATE MATERIALIZED VIEW makers AS SELECT p.maker, COUNT(*) AS flights FROM flights f JOIN planes p ON p.tailnum = f.tailnum GROUP BY p.maker;
