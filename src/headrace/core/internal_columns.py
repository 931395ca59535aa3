"""Names of the columns that queries have beside their users' columns.

All start with `PREFIX`. No SQL text can contain such a name (`names.Identifier`, `sql.lexer`), so no column of a relation has one.
`InternalColumns.scala` has those that the operators know.
"""

from __future__ import annotations

PREFIX = "__headrace_"
PREFIX_BEFORE_VERSION_4 = "__"
"""In plans that were stored before version 4: their checkpoints hold these names, and users' columns may start with it."""

OP = f"{PREFIX}op"
DELETED = f"{PREFIX}deleted"
ROW_TIME = f"{PREFIX}rowtime"
ROW_KEY = f"{PREFIX}rowkey"
ROW_METADATA = f"{PREFIX}metadata"
ROW_HEADERS = f"{PREFIX}rowheaders"
ENTITY = f"{PREFIX}entity"
SPLIT = f"{PREFIX}split"
SEQUENCE = f"{PREFIX}sequence"
KEY_BYTES = f"{PREFIX}key"
RECORD = f"{PREFIX}record"
WINDOW = f"{PREFIX}window"
FOUND = f"{PREFIX}found"


def is_internal(name: str) -> bool:
    """Return True for a name that only columns of ours have. Engines of views compare names without case."""
    return name.lower().startswith(PREFIX)
