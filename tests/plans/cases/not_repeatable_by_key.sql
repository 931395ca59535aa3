CREATE CHANGELOG drawn AS SELECT tailnum, COALESCE(maker, UUID()) AS maker FROM planes;
