CREATE STREAM fixed WITH ('value.format' = JSON) AS SELECT t.x * 2 AS twice, t.n FROM UNNEST(ARRAY[1, 2, NULL]) WITH ORDINALITY AS t(x, n) WHERE t.n < 3;
