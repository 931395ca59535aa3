CREATE CHANGELOG named AS
SELECT b.*, a.id AS other, a.__rowtime AS was
FROM unwrapped a JOIN unwrapped b ON a.__op = b.__deleted
WHERE rowtime(a) IS NOT NULL AND a.__key_1 <> '';
