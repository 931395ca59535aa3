"""Write the shapes of PostgreSQL's catalog, which the PostgreSQL door presents: the columns of each relation of `pg_catalog` and
`information_schema`, as a PostgreSQL 16 has them."""

from __future__ import annotations

import tempfile
from pathlib import Path

from harness.postgresql import PostgresServer

SHAPES = Path(__file__).parent.parent / "src/headrace/server/postgres/catalog/shapes.txt"
QUERY = """
    SELECT n.nspname, c.relname, c.oid::bigint, string_agg(a.attname || ':' || t.typname, ' ' ORDER BY a.attnum)
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    JOIN pg_type t ON t.oid = a.atttypid
    WHERE n.nspname IN ('pg_catalog', 'information_schema') AND c.relkind IN ('r', 'v')
    GROUP BY 1, 2, 3 ORDER BY 1, 2
"""


def main() -> None:
    """Write the file."""
    with tempfile.TemporaryDirectory() as folder, PostgresServer(Path(folder), 16) as server:
        rows = server.execute(QUERY)
    SHAPES.write_text("".join(f"{schema}.{name} {oid} {columns}\n" for schema, name, oid, columns in rows))


if __name__ == "__main__":
    main()
