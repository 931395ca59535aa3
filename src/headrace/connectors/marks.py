"""Exactly once by a table of marks in the store: of each query the last epoch that it has written, moved in the transaction of its rows."""

from __future__ import annotations

from pathlib import Path

from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState

MARKS = "HEADRACE_EPOCHS"
"""The table of marks, in the schema of the table that is written, in stores where names are in upper case."""
BEFORE_ANY = -1
"""The mark of a query that has written nothing."""


RESUMED = "resumed"
"""The file in the checkpoint of a query that continues from another one: the number of the last batch that the other one wrote."""


def is_begun(checkpoint: str) -> bool:
    """Return True if a query has finished a batch: then its mark is in the table of marks, or was lost with it."""
    resumed = Path(checkpoint, RESUMED)
    inherited = int(resumed.read_text()) if resumed.is_file() else BEFORE_ANY
    return any(int(path.name) > inherited for path in Path(checkpoint, "commits").glob("[0-9]*"))


def is_written(mark: int | None, epoch: int, table: str = MARKS) -> bool:
    """True if a query's mark in a table covers an epoch. Raises UserError 22000 for an inconsistent mark.

    A mark is inconsistent if it is missing, or if its epoch is later than expected: then the checkpoint is older than the table.
    """
    if mark is None or mark > epoch:
        problem = "is missing" if mark is None else f"is {mark}: the checkpoint is older than the table"
        raise UserError(
            SqlState.DATA_EXCEPTION,
            f"cannot determine whether batch {epoch} was written: the query's mark in {table} {problem}",
            hint="RESTART does not help. Create the query again, from the position where its output ends.",
        )
    return mark == epoch
