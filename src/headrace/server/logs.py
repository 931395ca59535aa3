"""Logs: one JSON object a line on standard error, from our code and from libraries alike.

No line holds a statement's text, a token or a store's properties; `session.service` and `rest.runs` write the log lines of statements.
"""

from __future__ import annotations

import logging
import sys

import structlog
from structlog.typing import Processor

_LIBRARIES = {"uvicorn": logging.WARNING, "uvicorn.error": logging.WARNING, "alembic": logging.WARNING}


def configure_logs(level: int = logging.INFO) -> None:
    """Set up structlog and the standard library's logging."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.format_exc_info, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name, minimum in _LIBRARIES.items():
        logging.getLogger(name).setLevel(minimum)
