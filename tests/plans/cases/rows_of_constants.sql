CREATE STREAM fixed WITH ('value.format' = JSON) AS
SELECT UPPER(t.name) AS name, t.n * 2 AS twice FROM (VALUES ('a', 1), ('b', 2)) AS t(name, n) WHERE t.n > 0;
