-- A store is a connection to a system that you already have.
CREATE STORE broker WITH ('type' = KAFKA, 'uris' = '${broker}', 'tls.disabled' = TRUE);
CREATE DATABASE shop;

-- A stream gives columns to the records of a topic. With 'topic.partitions' it creates a topic that is missing.
CREATE STREAM orders (ordertime BIGINT, orderid INTEGER, item VARCHAR, price DECIMAL(10, 2))
  WITH ('store' = 'broker', 'topic' = 'orders', 'topic.partitions' = 1, 'topic.replicas' = 1,
        'value.format' = JSON, 'timestamp' = 'ordertime');

-- Your applications produce records. These four stand in for them.
INSERT INTO ENTITY orders IN STORE broker VALUE ('{"ordertime": 1767225601000, "orderid": 1, "item": "lamp", "price": 29.90}');
INSERT INTO ENTITY orders IN STORE broker VALUE ('{"ordertime": 1767225630000, "orderid": 2, "item": "chair", "price": 120}');
INSERT INTO ENTITY orders IN STORE broker VALUE ('{"ordertime": 1767225655000, "orderid": 3, "item": "lamp", "price": 31.50}');
INSERT INTO ENTITY orders IN STORE broker VALUE ('{"ordertime": 1767225670000, "orderid": 4, "item": "lamp", "price": 29.90}');

-- A continuous query runs until you terminate it, and survives restarts. A window's row is written
-- when the event time of every partition has passed the window's end: order 4 closes the first minute.
CREATE CHANGELOG sales_per_minute WITH ('store' = 'broker') AS
SELECT window_start, window_end, item, COUNT(*) AS orders, SUM(price) AS revenue
FROM TUMBLE(orders, SIZE 1 MINUTE) WITH ('starting.position' = 'earliest')
GROUP BY window_start, window_end, item;

-- A materialized view keeps an answer up to date.
CREATE MATERIALIZED VIEW best_sellers AS
SELECT item, COUNT(*) AS orders FROM orders WITH ('starting.position' = 'earliest') GROUP BY item;

-- Live rows, until you stop it. The first query of a server starts Spark, which takes some seconds.
SELECT * FROM sales_per_minute WITH ('starting.position' = 'earliest');

-- A snapshot of the view, which ends; then how a query would run, and what runs now.
SELECT * FROM best_sellers ORDER BY orders DESC LIMIT 10;
EXPLAIN SELECT item FROM orders WHERE price > 100;
LIST QUERIES;
