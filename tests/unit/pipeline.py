"""A database as text, for tests of definitions and of desired states."""

from __future__ import annotations

PIPELINE = """
CREATE STORE made WITH ('type' = GENERATOR);
CREATE DATABASE web;
USE DATABASE web;
CREATE SCHEMA raw;
USE SCHEMA raw;
CREATE STREAM "Visits" (at TIMESTAMP_LTZ(3), id BIGINT, page VARCHAR) WITH ('store' = 'made', 'timestamp' = 'at');
ALTER STREAM "Visits" SET description = 'one row for each visit; it''s all';
CREATE MATERIALIZED VIEW web.public.pages AS
  SELECT page, COUNT(*) AS n FROM "Visits" WITH ('starting.position' = 'earliest') GROUP BY page;
CREATE MATERIALIZED VIEW twos AS WITH visits AS (SELECT raw."Visits".id FROM raw."Visits") SELECT id AS n FROM visits;
"""
"""Two schemas, a quoted name, a CTE of the name of a relation, and a view over a name of the session."""
