SELECT shorten(carrier, 1) AS c, weighted(minutes, flights) AS w, dice() AS d FROM delays GROUP BY shorten(carrier, 1);
