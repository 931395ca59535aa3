"""Stored metadata: the objects that exist, their owners, and the privileges on them.

Role: the only access to stored metadata. Entry points: `catalog.Catalog`, `state.CatalogState`, `policy.Policy`.
`objects` contains the values, `kinds` their stored forms, `repository` reads and writes, `removal` drops with their dependents.
`storage` (private, like `tables`) is the database and the state in memory that follows it, `migrations` upgrades old databases.
May import: core, formats, SQLAlchemy, Alembic, cryptography.
To add an object kind: its value in `objects.py`, its module in `kinds/`, and its reads and writes on `Catalog`. No migration is needed.
A change of a kind's stored form is a function in its `upgrades`.
"""
