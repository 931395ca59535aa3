CREATE STREAM stops AS SELECT f.carrier, t.stop, t.place FROM flights f CROSS JOIN UNNEST(f.stops) WITH ORDINALITY AS t(stop, place) WHERE t.place < 3;
