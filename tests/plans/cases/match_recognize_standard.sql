CREATE STREAM holds AS
SELECT m.carrier, m.number, m.kind, m.so_far, m.total, m.tailnum
FROM flights MATCH_RECOGNIZE (
  PARTITION BY carrier
  ORDER BY flight_time
  MEASURES MATCH_NUMBER() AS number, CLASSIFIER() AS kind, COUNT(*) AS so_far, FINAL SUM(bad.delay) AS total
  ALL ROWS PER MATCH
  AFTER MATCH SKIP TO LAST bad
  PATTERN ((late | (worse {- early* -})+?){2,} PERMUTE(early, late)?) WITHIN 1 HOUR
  SUBSET bad = (late, worse)
  DEFINE late AS delay > 10, worse AS worse.delay > AVG(bad.delay), early AS delay <= 0
) AS m WITH ('starting.position' = 'earliest')
