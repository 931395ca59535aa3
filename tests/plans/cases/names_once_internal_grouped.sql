CREATE CHANGELOG named AS
SELECT __op, __deleted, __key_1, __argument_1, COUNT(__result_1) AS __result_1, MAX(__rowtime) AS __rowtime
FROM unwrapped GROUP BY __op, __deleted, __key_1, __argument_1 HAVING COUNT(*) > 1;
