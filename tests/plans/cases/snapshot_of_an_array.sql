SELECT t.x, t.n, c.name FROM UNNEST(ARRAY['AA', 'B']) WITH ORDINALITY AS t(x, n) LEFT JOIN carriers AS c ON c.carrier = t.x;
