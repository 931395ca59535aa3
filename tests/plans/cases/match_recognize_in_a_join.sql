SELECT m.what, p.maker
FROM (SELECT flight_time AS at, tailnum, note FROM flights WHERE distance > 0) MATCH_RECOGNIZE (
  PARTITION BY tailnum
  ORDER BY at ASC
  MEASURES a.note || b.note AS what, b.note = PREV(b.note) AS same
  PATTERN (a x*? b)
  DEFINE a AS note = 'AIM', b AS b.note <> a.note
) AS m
JOIN planes AS p ON m.tailnum = p.tailnum
QUERY WITH ('state.ttl.millis' = 600000)
