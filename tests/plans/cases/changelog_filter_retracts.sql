CREATE CHANGELOG big AS SELECT tailnum, seats FROM planes WHERE seats > 100 AND maker <> 'x';
