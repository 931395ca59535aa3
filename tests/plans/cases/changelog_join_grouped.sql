CREATE MATERIALIZED VIEW per_dest AS SELECT r.dest, COUNT(*) AS n FROM planes p JOIN routes r ON p.maker = r.dest GROUP BY r.dest;
