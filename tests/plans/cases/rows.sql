CREATE CHANGELOG renamed WITH ('topic.partitions' = 1, 'topic.replicas' = 1) AS
SELECT p.id, p.name, rowmeta(p)->lsn AS lsn FROM passengers p WITH ('postgresql.slot.name' = 'renamed') WHERE p.name <> 'x';
