"""Which file of a checkpoint cannot be read: after a crash of the machine, a full disk or a failed copy.

Spark's exceptions name the class that could not parse, and seldom the file. So the small files are read here, and the files of the
state are looked for in the exception.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState

_LOGS = ("offsets", "commits")
_STATE_FILE = re.compile(r"/state/(\d+/\d+/[^\s'\",()/]+)")
_STATE_FAILURE = "CANNOT_LOAD_STATE_STORE"
"""Spark's condition when it cannot read the state of a version that the checkpoint names; its text seldom has the reason."""


def damage(checkpoint: Path, trace: str) -> UserError | None:
    """Return XX001 with the name of the damaged file for a query that failed with `trace`; None if the checkpoint is not the reason."""
    name = _unreadable_log(checkpoint) or _unreadable_state(trace)
    if name is None:
        return None
    what = "a file of the folder state" if name == "state" else f"the file {name}"
    return UserError(
        SqlState.DATA_CORRUPTED,
        f"{what} of the query's checkpoint is damaged, in checkpoints/{checkpoint.name} of the data directory",
        hint="Restore the folder from a backup and RESTART the query; or TERMINATE it and create it again: "
        "it then begins at the starting positions of its sources.",
    )


def _unreadable_log(checkpoint: Path) -> str | None:
    """Return the first of the small files that a start reads and that holds no JSON, relative to the checkpoint."""
    metadata = checkpoint / "metadata"
    if metadata.is_file() and not _is_json(metadata.read_text(errors="replace")):
        return metadata.name
    for folder in _LOGS:
        batches = [path for path in (checkpoint / folder).glob("*") if path.name.isdecimal()]
        for path in sorted(batches, key=lambda path: int(path.name))[-2:]:
            version, *lines = path.read_text(errors="replace").splitlines() or [""]
            # A source without an offset yet is a dash.
            if (
                not version.startswith("v")
                or not lines
                or not all(line == "-" or _is_json(line) for line in lines)
            ):
                return f"{folder}/{path.name}"
    return None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _unreadable_state(trace: str) -> str | None:
    """Return the file of the state that the exception names, or their folder, since it seldom names one."""
    if _STATE_FAILURE not in trace:
        return None
    file = _STATE_FILE.search(trace)
    return f"state/{file[1]}" if file else "state"
