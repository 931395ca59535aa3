INSERT INTO totals SELECT carrier AS c, COUNT(*) AS n FROM flights GROUP BY carrier;
