"""Exit codes of the command line."""

from __future__ import annotations

OK = 0
STATEMENT_FAILED = 1
USAGE = 2
NO_CONNECTION = 3
NOT_AUTHORIZED = 4
INTERRUPTED = 130
