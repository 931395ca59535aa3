SELECT 1 AS one, 'it''s' AS text;
