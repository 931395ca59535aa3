"""Stored metadata: the objects that exist, their owners, and the privileges on them.

Role: the one door to stored metadata. Entry points: `catalog.Catalog`, `state.CatalogState`, `policy.Policy`.
`objects` are the values that go in and out, `kinds` how each is stored, `repository` its reads and writes, `removal` what goes with
it. `storage` (private, as `tables` is) is the database and the state that follows it, `migrations` how an old one becomes today's.
May import: core, formats, SQLAlchemy, Alembic, cryptography.
To add an object kind: its value in `objects.py`, its module in `kinds/`, and its reads and writes on `Catalog`. No migration is needed,
nor for a change of what a kind keeps: that is a function in its `upgrades`.
"""
