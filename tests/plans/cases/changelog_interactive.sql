SELECT * FROM planes WHERE seats > 100 LIMIT 5;
