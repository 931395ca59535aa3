SELECT COUNT(*), MAX(delay) AS worst FROM flights;
