SELECT x.c FROM (SELECT carrier AS c FROM delays) x UNION SELECT name FROM carriers ORDER BY 1;
