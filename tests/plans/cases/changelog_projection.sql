CREATE CHANGELOG makers AS SELECT tailnum AS plane, maker FROM planes;
