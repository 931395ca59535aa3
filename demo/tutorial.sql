-- docs/tutorials/multi-store.md as a script. ${kinesis} is the stand-in's address, ${bootstrap} the broker's.
CREATE STORE kinesis_store WITH ('type' = KINESIS, 'uris' = '${kinesis}', 'tls.disabled' = TRUE, 'kinesis.access_key_id' = 'a', 'kinesis.secret_access_key' = 'b');
CREATE STORE kafka_store WITH ('type' = KAFKA, 'uris' = '${bootstrap}', 'tls.disabled' = TRUE);
CREATE DATABASE tutorial;
USE DATABASE tutorial;
USE STORE kafka_store;

CREATE STREAM pageviews_kinesis (viewtime BIGINT, userid VARCHAR, pageid VARCHAR) WITH (
  'store' = 'kinesis_store', 'topic' = 'pageviews', 'kinesis.shards' = 2, 'value.format' = 'json', 'timestamp' = 'viewtime'
);
CREATE STREAM users_kafka (registertime BIGINT, userid VARCHAR, regionid VARCHAR, interests ARRAY<VARCHAR>) WITH (
  'topic' = 'users', 'topic.partitions' = 1, 'topic.replicas' = 1, 'value.format' = 'json', 'timestamp' = 'registertime'
);

CREATE STREAM pageviews_copy WITH ('store' = 'kafka_store', 'topic.partitions' = 1, 'topic.replicas' = 1) AS
SELECT * FROM pageviews_kinesis WITH ('starting.position' = 'earliest');

CREATE STREAM pageviews_enriched WITH ('store' = 'kinesis_store') AS
SELECT p.viewtime, p.userid, p.pageid, u.regionid, u.interests[1] AS interest
FROM pageviews_kinesis p WITH ('starting.position' = 'earliest')
JOIN users_kafka u WITH ('starting.position' = 'earliest') WITHIN 5 MINUTES ON u.userid = p.userid;
