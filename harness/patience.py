"""Timeouts of tests."""

from __future__ import annotations

import os

from headrace.testing.patience import Patience

PATIENCE_S = float(os.environ.get("HEADRACE_PATIENCE_S", "180"))
"""Long enough for a machine whose disk or processors others use: a wait that is granted ends when the thing comes."""

PATIENCE = Patience(PATIENCE_S)
until = PATIENCE.until
