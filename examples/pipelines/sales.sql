-- Orders of a shop. Events arrive out of order by some seconds at most.
CREATE STREAM orders (ordertime BIGINT, orderid INTEGER, item VARCHAR, price DECIMAL(10, 2))
  WITH ('topic' = 'orders', 'topic.partitions' = 1, 'topic.replicas' = 1, 'value.format' = JSON, 'timestamp' = 'ordertime');

-- What each item sold in each minute.
CREATE CHANGELOG sales_per_minute WITH ('topic' = 'sales_per_minute') AS
SELECT window_start, window_end, item, COUNT(*) AS orders, SUM(price) AS revenue
FROM TUMBLE(orders, SIZE 1 MINUTE) WITH ('starting.position' = 'earliest')
GROUP BY window_start, window_end, item;

-- The expensive orders, for people who call customers: each once, whatever fails.
CREATE STREAM large_orders WITH ('topic' = 'large_orders', 'delivery.guarantee' = 'exactly_once') AS
SELECT orderid, item, price FROM orders WITH ('starting.position' = 'earliest') WHERE price >= 100;

CREATE MATERIALIZED VIEW best_sellers AS
SELECT item, COUNT(*) AS orders FROM orders WITH ('starting.position' = 'earliest') GROUP BY item;
