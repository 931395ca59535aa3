/** What a new workspace shows: a whole journey, from a store to a window over a stream. */

export const STARTING_TEXT = `-- Run the statement under the cursor with Ctrl+Enter (Cmd+Enter on a Mac); Esc stops it.

-- 1. A store is a connection to a system you already have.
CREATE STORE my_kafka WITH (
  'type' = KAFKA,
  'uris' = 'localhost:9092',
  'kafka.sasl.hash_function' = NONE,
  'tls.disabled' = TRUE
);

-- 2. A stream gives columns to the records of a topic.
CREATE DATABASE web;
CREATE STREAM pageviews (viewtime BIGINT, userid VARCHAR, pageid VARCHAR) WITH (
  'store' = 'my_kafka',
  'topic' = 'pageviews',
  'value.format' = 'JSON',
  'timestamp' = 'viewtime'
);

-- 3. Watch its records as they arrive.
SELECT * FROM pageviews;

-- 4. Keep a count for each page and minute, for as long as you like.
CREATE CHANGELOG visits_per_minute AS
SELECT window_start, window_end, pageid, COUNT(*) AS visits
FROM TUMBLE(pageviews, SIZE 1 MINUTE)
GROUP BY window_start, window_end, pageid;

LIST QUERIES;
`;
