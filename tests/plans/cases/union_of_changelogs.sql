CREATE CHANGELOG names AS SELECT name, COUNT(*) AS n FROM (SELECT code AS name FROM airports UNION ALL SELECT tailnum FROM planes) GROUP BY name;
