"""The size of the log that a store retains because a query has not confirmed reading it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from headrace.core.errors import HeadraceError
from headrace.core.names import path_text
from headrace.engine.driver.builder import Build, connector_module
from headrace.planner.physical import ReadRows

logger = logging.getLogger(__name__)

_INTERVAL_S = 10.0


class Backlog:
    """Retained logs of a query by entity, read periodically in a thread of its own until the query ends. Empty if no store retains a
    log."""

    def __init__(self, work: Build) -> None:
        self.bytes: dict[str, int] = {}
        self._asked: dict[str, Callable[[], int]] = {
            path_text(step.entity): module.backlog(work.row_request(step))
            for step in work.start.plan.steps
            if isinstance(step, ReadRows) and hasattr(module := connector_module(step.connector), "backlog")
        }
        if self._asked:
            ended = threading.Event()
            work.resources.callback(ended.set)
            name = f"backlog-{work.start.query_id}"
            threading.Thread(target=self._ask, args=(ended,), name=name, daemon=True).start()

    def _ask(self, ended: threading.Event) -> None:
        while not ended.is_set():
            for entity, ask in self._asked.items():
                try:
                    self.bytes[entity] = ask()
                except HeadraceError as error:
                    # The watch over stores tells of one that is away.
                    logger.debug("the backlog of %s is not known: %s", entity, error.message)
            ended.wait(_INTERVAL_S)
