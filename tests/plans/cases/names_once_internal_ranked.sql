CREATE CHANGELOG named AS
SELECT __op, __partition_1, __order_1, __row, __closes FROM (
  SELECT __op, __partition_1, __order_1, __row, __closes, ROW_NUMBER() OVER (PARTITION BY __op, __partition_1 ORDER BY __order_1) AS __rank FROM unwrapped
) WHERE __rank <= 1;
