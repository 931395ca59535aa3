CREATE CHANGELOG spread AS SELECT flights, COUNT(*) AS carriers FROM busy AS b GROUP BY flights;
