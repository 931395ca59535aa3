"""Exactly once by a table of marks in the store: of each query the last epoch that it has written, moved in the transaction of its rows."""

from __future__ import annotations

from headrace.connectors.checkpoint_store import CheckpointStore
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState

MARKS = "HEADRACE_EPOCHS"
"""The table of marks, in the schema of the table that is written, in stores where names are in upper case."""
BEFORE_ANY = -1
"""The mark of a query that has written nothing."""


RESUMED = "resumed"
"""The file in the checkpoint of a query that continues from another one: the number of the last batch that the other one wrote."""


WRITER = "writer"
"""The file in the checkpoint of a query that was restored from a backup: a word that tells its marks from those of the original."""


def writer_of(query_id: str, checkpoint: CheckpointStore) -> str:
    """Return the name under which a query marks its output: its id, with the word of a restored query.

    The original may have written after the backup. A restored query that took the original's marks for its own would skip other rows.
    """
    word = checkpoint.read(WRITER)
    return query_id if word is None else f"{query_id}-{word.decode()}"


def is_begun(checkpoint: CheckpointStore) -> bool:
    """Return True if a query has finished a batch: then its mark is in the table of marks, or was lost with it."""
    resumed = checkpoint.read(RESUMED)
    inherited = BEFORE_ANY if resumed is None else int(resumed)
    return any(int(name) > inherited for name in checkpoint.names("commits") if name.isdecimal())


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
