SELECT maker, 1000 / seats AS share FROM planes WHERE seats > 0;
