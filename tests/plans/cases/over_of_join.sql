SELECT f.carrier, p.maker, LAST_VALUE(f.delay) OVER (PARTITION BY p.maker ORDER BY rowtime(f) ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS last
FROM flights AS f JOIN planes AS p ON f.tailnum = p.tailnum
QUERY WITH ('state.ttl.millis' = 600000)
