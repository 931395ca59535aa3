"""Copies of the checkpoints of continuous queries: taken by the driver between two batches, or by the server if the query does not run."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from weakref import WeakValueDictionary

from headrace.catalog.objects import Query, QueryState
from headrace.connectors.carried_errors import carried
from headrace.connectors.checkpoint_store import LocalFolder
from headrace.core.errors import InternalError, UserError
from headrace.core.sqlstate import SqlState
from headrace.engine.checkpoint_copy import (
    Border,
    border,
    copy_at_rest,
    copy_whole,
    has_batch,
    no_batch,
    plans_of_parts,
)
from headrace.engine.checkpoints import Checkpoints, folder_name
from headrace.engine.pools import DriverProcess
from headrace.engine.protocol import HOLD_S, CheckpointCopied, CopyCheckpoint, ReleaseQuery
from headrace.engine.rebuilt_checkpoint import place_rebuilt
from headrace.planner.branches import Rebuild
from headrace.planner.physical import SparkPlan

_STOPPED_S = 20.0
START_WAIT_S = 60.0
"""How long a copy that holds its query waits for the query to start. It is less than the time for which the query is held."""
_START_POLL_S = 0.1


class Copies:
    """Copies in progress. `driver_of` returns the driver that runs a query, None if none does. Used from one event loop."""

    def __init__(self, checkpoints: Checkpoints, driver_of: Callable[[str], DriverProcess | None]) -> None:
        self._checkpoints = checkpoints
        self._driver_of = driver_of
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._sequences = itertools.count(1)
        self._asked: dict[int, tuple[DriverProcess, asyncio.Future[CheckpointCopied]]] = {}

    def exclusive(self, query_id: str) -> asyncio.Lock:
        """Return the lock of a query for a copy that holds it: the end of another copy would release the query."""
        lock = self._locks.get(query_id)
        if lock is None:
            lock = self._locks[query_id] = asyncio.Lock()
        return lock

    async def copy(self, query: Query, target: Path, *, hold: bool = False) -> Border:
        """Copy the checkpoint of a query at a batch border into a folder that does not exist, and return the border. With `hold` a query
        that runs begins no batch afterwards, since it is to be stopped, until `release`; a query that starts is awaited.

        Raises UserError 3E003 for a query with a part that has not finished a batch, or that starts for too long, 57014 if its batch does
        not end in time; OSError, and HeadraceError as S3Folder.
        """
        deadline = time.monotonic() + START_WAIT_S
        while (answer := await self._of_driver(query, target, hold)) is None or not answer.is_running:
            # A driver that has ended may have left a part.
            await asyncio.to_thread(shutil.rmtree, target, ignore_errors=True)
            if not (hold and self._driver_of(query.id)):
                last = await asyncio.to_thread(self._at_rest, query, target)
                # The query may have been sent to a driver during the copy.
                if not (hold and self._driver_of(query.id)):
                    is_final = not query.should_run or query.actual_state is QueryState.ERRORED
                    return replace(last, is_final=is_final)
                await asyncio.to_thread(shutil.rmtree, target, ignore_errors=True)
            # A driver has the query and does not run it yet: it cannot be held, and will write batches that a copy would lack.
            if time.monotonic() > deadline:
                raise _starting(query)
            await asyncio.sleep(_START_POLL_S)
        last = _border(answer)
        for folder in plans_of_parts(SparkPlan.from_json(query.plan)):
            if border(LocalFolder(target.joinpath(*folder))) is None:
                raise no_batch(query.id, *folder[1:])
        return replace(last, is_final=hold)

    async def back_up(self, query: Query, target: Path, *, hold: bool) -> bool | None:
        """Copy the checkpoint of a query into a folder that does not exist: at a batch border if it runs, as a whole if it does not.

        Returns whether it runs; None, without a copy, if it has not finished a batch. With `hold` it begins no batch until `release`.
        Raises UserError 57014 if its batch does not end in time; and OSError.
        """
        while True:
            checkpoint = self._checkpoints.path(query)
            if not await asyncio.to_thread(has_batch, checkpoint):
                return None
            answer = await self._of_driver(query, target, hold)
            if answer is not None and answer.is_running:
                if answer.error is not None:
                    raise carried(answer.error) or InternalError("the driver could not copy the checkpoint")
                return True
            await asyncio.to_thread(shutil.rmtree, target, ignore_errors=True)
            await asyncio.to_thread(copy_whole, checkpoint, target)
            if self._driver_of(query.id) is None:
                return False
            # It was started meanwhile.
            await asyncio.to_thread(shutil.rmtree, target, ignore_errors=True)

    async def continue_partly(self, query: Query, successor: Query, rebuild: Rebuild) -> float:
        """Write the checkpoint of `successor`, which continues partly from that of the query. A query that runs starts no batch afterwards.
        Return the monotonic time until which `successor` can be stored: the hold ends a little later.

        Raises UserError 3E003 for a query that has not finished a batch or is about to start, 0A000 for one that was stopped during a
        batch which it writes exactly once, 57014 if its batch does not end in time, and OSError. Then the query continues.
        """
        # The hold begins later. The driver hears of the new version within the time that is subtracted.
        held_until = time.monotonic() + HOLD_S - _STOPPED_S
        checkpoint = self._checkpoints.store(successor)
        copy = self._checkpoints.copy_path(checkpoint, folder_name(successor))
        try:
            # A server that was killed may have left a part.
            await asyncio.to_thread(_remove, copy)
            await asyncio.to_thread(checkpoint.remove)
            last = await self._held(query, copy)
            await asyncio.to_thread(place_rebuilt, copy, checkpoint, last.batch, rebuild)
            return held_until
        except BaseException:
            await self.abandon_partly(query, successor)
            raise
        finally:
            await asyncio.to_thread(_remove, copy)

    async def abandon_partly(self, query: Query, successor: Query) -> None:
        """Undo `continue_partly`: remove the checkpoint, and let the query continue."""
        self.release(query)
        await asyncio.to_thread(self._checkpoints.store(successor).remove)

    async def _held(self, query: Query, target: Path) -> Border:
        """Copy the checkpoint of a query that starts no batch afterwards."""
        answer = await self._of_driver(query, target, hold=True)
        if answer is not None and answer.is_running:
            return _border(answer)
        if query.should_run and query.actual_state is not QueryState.ERRORED:
            raise UserError(
                SqlState.RELATION_NOT_READY,
                f"the query {query.id} is {query.actual_state.value}: it can continue partly only while it runs, or after its end",
                hint=f"Repeat the statement later. EXPLAIN WHY {query.id}; shows the cause.",
            )
        last = await asyncio.to_thread(self._at_rest, query, target)
        sink = SparkPlan.from_json(query.plan).sink
        if last.is_interrupted and getattr(sink, "guarantee", None) == "exactly_once":
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"the query {query.id} was stopped during a batch, of which its sink may contain rows",
                hint=f"RESTART QUERY {query.id}; and repeat the statement while it runs.",
            )
        return last

    def release(self, query: Query) -> None:
        """Let a query that is held between two batches continue."""
        if (driver := self._driver_of(query.id)) is not None:
            driver.send(ReleaseQuery(query_id=query.id))

    async def _of_driver(self, query: Query, target: Path, hold: bool) -> CheckpointCopied | None:
        """Return the answer of the query's driver; None if no driver runs it, or if the driver ends. Raises UserError 0A000 if it is a pod
        that does not have the folder."""
        driver = self._driver_of(query.id)
        if driver is None:
            return None
        if not driver.sees(target):
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"the query {query.name or query.id} runs in a pod, which does not have the folder {target.parent}",
                hint="STOP the query first. Or, if the checkpoints are not in S3, the operator sets HEADRACE_SHARED_DIR to a folder of "
                "their volume.",
            )
        sequence = next(self._sequences)
        answer: asyncio.Future[CheckpointCopied] = asyncio.get_running_loop().create_future()
        self._asked[sequence] = driver, answer
        try:
            message = CopyCheckpoint(sequence=sequence, query_id=query.id, target=str(target), hold=hold)
            return await answer if driver.send(message) else None
        except asyncio.CancelledError:
            if answer.cancelled():
                return None
            raise
        finally:
            del self._asked[sequence]

    def copied(self, message: CheckpointCopied) -> None:
        """Pass on the answer of a driver."""
        _, answer = self._asked.get(message.sequence, (None, None))
        if answer is not None and not answer.done():
            answer.set_result(message)

    def driver_ended(self, driver: DriverProcess) -> None:
        """Cancel the copies that were requested from a driver."""
        for asked, answer in list(self._asked.values()):
            if asked is driver:
                answer.cancel()

    def is_interrupted(self, query: Query) -> bool:
        """Return True if a query that does not run has begun a batch that it did not finish."""
        store = self._checkpoints.store(query)
        borders = [border(store.at(*folder)) for folder in plans_of_parts(SparkPlan.from_json(query.plan))]
        return any(last is not None and last.is_interrupted for last in borders)

    def _at_rest(self, query: Query, target: Path) -> Border:
        store, plan = self._checkpoints.store(query), SparkPlan.from_json(query.plan)
        for folder in plans_of_parts(plan):
            if border(store.at(*folder)) is None:
                raise no_batch(query.id, *folder[1:])
        return copy_at_rest(store, target, plan)


def _border(answer: CheckpointCopied) -> Border:
    """Return the border at which a driver has copied a checkpoint; raise its error."""
    if answer.error is not None:
        raise carried(answer.error) or InternalError("the driver could not copy the checkpoint")
    return Border(answer.batch, is_interrupted=False)


def _starting(query: Query) -> UserError:
    return UserError(
        SqlState.RELATION_NOT_READY,
        f"the query {query.id} is starting: its checkpoint can be copied for its end only when it runs, or has ended",
        hint=f"Repeat the statement later. EXPLAIN WHY {query.id}; shows the cause.",
    )


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
