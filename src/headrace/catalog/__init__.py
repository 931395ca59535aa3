"""What exists, who owns it, who may touch it.

Role: the one door to stored metadata. Entry points: `catalog.Catalog`, `access.authorize`, `view.CatalogView`.
`objects` are the values that go in and out; `tables` (private) the rows; `migrations` how a stored catalog becomes today's.
May import: core, SQLAlchemy, Alembic, cryptography.
To add an object kind: its value in `objects.py`, its table in `tables.py` with a migration, its conversion in `rows.py`, and its
reads and writes on `Catalog`.
"""
