CREATE CHANGELOG names AS SELECT carrier AS name FROM flights UNION SELECT maker FROM planes;
