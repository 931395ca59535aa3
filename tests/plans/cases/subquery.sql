WITH far AS (SELECT tailnum AS plane, distance FROM flights WHERE distance > 1000) SELECT far.plane, p.maker FROM far JOIN planes p ON p.tailnum = far.plane;
