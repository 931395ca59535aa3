"""The rows of the materialized views that a query writes, in a copy of its checkpoint: both as they are after the same batch. ADR 102."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from headrace.catalog.objects import Query
from headrace.connectors.checkpoint_store import LocalFolder
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.engine.checkpoint_copy import VIEWS, Border, Folder, border, plans_of_parts
from headrace.engine.copies import Copies
from headrace.engine.views.backup import CopiedView, new_copy
from headrace.engine.views.store import ViewSnapshot, ViewStore
from headrace.planner.physical import SparkPlan, WriteView


class ViewCopies:
    """Copies of checkpoints with the rows of views. `runs` is true of a query that a driver runs. Used from one event loop."""

    def __init__(self, copies: Copies, views: ViewStore, runs: Callable[[str], bool]) -> None:
        self._copies = copies
        self._views = views
        self._runs = runs

    async def copy(self, query: Query, target: Path, *, hold: bool = False) -> Border:
        """Copy the checkpoint of a query as `Copies.copy`, and the rows of its views into a file there. A query that runs waits at the
        border until snapshots of its views are open, and with `hold` until it is stopped or released.

        Raises as `Copies.copy`; UserError 3E003 for a view that contains a later batch, ExternalError when the store of views is away.
        """
        written = views_of(SparkPlan.from_json(query.plan))
        if not written:
            return await self._copies.copy(query, target, hold=hold)
        with ExitStack() as snapshots:
            opened: dict[str, ViewSnapshot] = {}
            try:
                last = await self._copies.copy(query, target, hold=True)
                for view in written:
                    opened[view] = snapshots.enter_context(
                        closing(await asyncio.to_thread(self._views.snapshot, view))
                    )
            finally:
                if not hold:
                    self._copies.release(query)
            for view, snapshot in opened.items():
                _refuse_later(snapshot, target.joinpath(*written[view]), query)
            with closing(await asyncio.to_thread(new_copy, target / VIEWS)) as rows:
                for snapshot in opened.values():
                    if not await asyncio.to_thread(snapshot.copy, rows):
                        raise _dropped(query)
        return last if hold else replace(last, is_final=last.is_final and not self._runs(query.id))

    async def fill(self, copy: Path, views: Mapping[str, str]) -> None:
        """Fill new views with the rows in a copy: `views` maps the id of each copied view to that of the new one. Raises as
        `ViewStore.fill`."""
        for before, after in views.items():
            await asyncio.to_thread(self._views.fill, after, CopiedView(copy / VIEWS, before))


def views_of(plan: SparkPlan) -> dict[str, Folder]:
    """Return the ids of the views that a plan writes, each with the folder of its part in the checkpoint."""
    return {
        step.view: folder
        for folder, part in plans_of_parts(plan).items()
        for step in part.sinks
        if isinstance(step, WriteView)
    }


def _refuse_later(snapshot: ViewSnapshot, part: Path, query: Query) -> None:
    """Raise UserError 3E003 if a view contains a batch that is not in the copy of its query's checkpoint."""
    last = border(LocalFolder(part))
    if last is None or snapshot.epoch > last.batch:
        raise UserError(
            SqlState.RELATION_NOT_READY,
            f"a view of the query {query.id} contains a batch that its checkpoint does not: the query was stopped during that batch, or "
            "started again meanwhile",
            hint=f"Repeat the statement while the query runs: RESTART QUERY {query.id}; starts one that does not.",
        )


def _dropped(query: Query) -> UserError:
    return UserError(
        SqlState.RELATION_NOT_READY,
        f"a view of the query {query.id} was dropped meanwhile",
        hint="A query without its view has no savepoint.",
    )
