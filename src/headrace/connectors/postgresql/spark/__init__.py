"""The driver half of the PostgreSQL store type. See `connectors.streaming` for what each part promises; queries use none yet."""

from __future__ import annotations

CLASSES: tuple[str, ...] = ()
NOISY_LOGGERS: tuple[str, ...] = ()
