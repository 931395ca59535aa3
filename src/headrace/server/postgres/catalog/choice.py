"""The choice between the product's SQL and PostgreSQL's: a query is of the catalog if it names something of it."""

from __future__ import annotations

from functools import cache

from headrace.server.postgres.catalog.functions import function_names
from headrace.server.postgres.catalog.shapes import PG_CATALOG, shapes
from headrace.sql.splitting import PIECE

_BARE = frozenset(
    {
        "pg_catalog",
        "current_schema",
        "current_catalog",
        "current_user",
        "current_role",
        "session_user",
        "regclass",
        "regtype",
    }
)
_CALLED = frozenset({"version", "current_schemas", "current_database", "current_setting"})


def concerns_catalog(text: str) -> bool:
    """True for a query that names a relation or function of PostgreSQL's catalog, or `information_schema` without a database.

    Without FROM, `::` counts as well, which only PostgreSQL's clients write.
    """
    before = ["", ""]
    has_from, has_cast = False, False
    for match in PIECE.finditer(text):
        kind, piece = match.lastgroup, match.group()
        if kind in ("space", "comment"):
            continue
        name = piece[1:-1] if kind == "quoted" else piece.lower() if kind == "word" else ""
        if (
            name
            and before[-1] != "."
            and (name in _BARE or name in _own_names() or name == "information_schema")
        ):
            return True
        if piece == "(" and before[-1].lower() in _CALLED and before[0] != ".":
            return True
        has_from = has_from or (kind == "word" and name == "from")
        has_cast = has_cast or (piece == before[-1] == ":")
        before = [before[-1], piece]
    return has_cast and not has_from


@cache
def _own_names() -> frozenset[str]:
    relations = (name for schema, name in shapes() if schema == PG_CATALOG)
    return frozenset(name for name in (*relations, *function_names()) if name.startswith("pg_"))
