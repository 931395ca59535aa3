"""`python -m headrace.server.restore BACKUP DIRECTORY`: the process behind `headrace restore`."""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.core.errors import HeadraceError
from headrace.engine.restoring import restore


def main() -> int:
    """Restore; returns the exit code: 0, or 1 if nothing was restored."""
    backup, directory = map(Path, sys.argv[1:])
    try:
        restore(backup, directory)
    except HeadraceError as error:
        sys.stderr.write(f"headrace: {error.text()}\n")
        return 1
    sys.stderr.write(f"headrace: restored {directory}; headrace up --data-dir {directory} starts it\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
