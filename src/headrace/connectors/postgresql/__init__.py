"""PostgreSQL: tables as entities, written and read by COPY, and their changes by logical replication.

Start at `admin.py`, which describes the store type; `options.py` has its properties. Everything goes through psycopg 3.
"""
