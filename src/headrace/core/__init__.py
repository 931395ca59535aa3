"""The vocabulary of the product: names, types, schemas, results, errors, settings.

Role: what every other package speaks in. Pure data; no I/O except `settings`, which reads the environment.
Entry points: `errors.HeadraceError`, `sqlstate.SqlState`, `types.DataType`, `schema.Schema`, `names.Identifier`,
`resultset.ResultSet`.
May import: the standard library and pydantic; nothing of ours.
To add an error code: one line in `sqlstate.py`. To add a data type: one class in `types.py` and its row in `parse_type`.
"""
