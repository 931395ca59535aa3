CREATE CHANGELOG carriers_seen AS SELECT DISTINCT carrier FROM flights;
