"""Upgrades of a stored catalog: Alembic revisions, run when a catalog is opened.

May import: Alembic and SQLAlchemy only, never `tables`: a revision describes the past and must not change with the present.
To change the schema: a new file in `versions/` whose `down_revision` is the newest, and `HEAD` below.
"""

HEAD = "0033"
