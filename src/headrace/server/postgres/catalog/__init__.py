"""Answers to the queries of `pg_catalog` and `information_schema` that PostgreSQL's clients send.

Role: a query is parsed as PostgreSQL's SQL, translated to DuckDB's (`translation`, `functions`), and evaluated by a worker of the views
over tables with the objects that the role may see (`shapes`, `rows`). Only known functions and relations pass the translation.
Entry points: `choice.concerns_catalog`, `answers.answered`.
"""
