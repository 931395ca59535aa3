"""Checkpoint of a query that continues partly: some sources and some operators with state start. ADR 92.

Spark starts a source whose offset is void. It has no such thing for an operator: the state of all operators has the number of the batch as
its version. So an operator that starts has a file with the version of which its state is empty. `CountedRocksDB` reads it, and counts the
versions of that operator from there.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from headrace.connectors.checkpoint_store import CheckpointStore
from headrace.core.atomic_file import write_atomically
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.core.wording import counted
from headrace.engine.checkpoint_copy import FIRST_VERSION, IDENTITIES, place_checkpoint
from headrace.planner.branches import Rebuild

_VOID = "-"
"""Spark's text for the offset of a source that has none yet."""
_LOG_VERSION = "v1"
_OPERATOR = "transformWithStateExec"
"""Spark's name of the operators of all `planner.branches.KEYED` steps."""
_DESCRIPTION_VERSION = "v2"
_PROPERTIES = {"timeMode": "NoTime", "outputMode": "Append", "stateVariables": []}
"""What Spark compares with the operator when the query starts. One with event time requires a watermark, and then its branch is not
rebuilt (`planner.branches`). The variables of the state are those that must not change: none."""


def place_rebuilt(copy: Path, checkpoint: CheckpointStore, batch: int, rebuild: Rebuild) -> None:
    """Let a query continue partly from a copy of its checkpoint that was taken after a batch. Changes the copy.

    Raises UserError 0A000 if the copy is not as the plan says, OSError, and HeadraceError as S3Folder; then nothing is left in the place of
    the checkpoint.
    """
    _change_sources(copy, rebuild)
    _change_operators(copy / "state", batch + 1, rebuild)
    if (copy / IDENTITIES).is_file():
        known = json.loads((copy / IDENTITIES).read_text())
        kept = {step: entities for step, entities in known.items() if step in rebuild.kept}
        write_atomically(copy / IDENTITIES, json.dumps(kept))
    place_checkpoint(copy, checkpoint, batch)


def _change_sources(copy: Path, rebuild: Rebuild) -> None:
    for log in (copy / "offsets").iterdir():
        version, facts, *offsets = log.read_text(encoding="utf-8").splitlines()
        if version != _LOG_VERSION or len(offsets) != rebuild.old_sources:
            raise _differs(f"{counted(len(offsets), 'source')}, expected {rebuild.old_sources}")
        moved = [_VOID if place is None else offsets[place] for place in rebuild.sources]
        for offset, place, entity in zip(moved, rebuild.sources, rebuild.entities, strict=True):
            if place is not None and offset != _VOID and set(json.loads(offset)) - {entity}:
                raise _differs(f"the source {place} of {', '.join(json.loads(offset))}, expected {entity}")
        log.write_text("\n".join((version, facts, *moved)), encoding="utf-8")
    before, after = copy / "sources.before", copy / "sources"
    if after.is_dir():
        after.rename(before)
        for number, place in enumerate(rebuild.sources):
            if place is not None and (before / str(place)).is_dir():
                after.mkdir(exist_ok=True)
                (before / str(place)).rename(after / str(number))
        shutil.rmtree(before)


def _change_operators(state: Path, version: int, rebuild: Rebuild) -> None:
    present = {path.name for path in state.iterdir()} if state.is_dir() else set()
    if present != set(map(str, range(rebuild.old_operators))):
        raise _differs(f"{counted(len(present), 'operator')} with state, expected {rebuild.old_operators}")
    for number in range(max(rebuild.operators, rebuild.old_operators)):
        folder = state / str(number)
        if number in rebuild.kept_operators:
            continue
        shutil.rmtree(folder, ignore_errors=True)
        if number < rebuild.operators:
            _start(folder, number, version)


def _start(folder: Path, number: int, version: int) -> None:
    """Write what Spark requires of an operator in a checkpoint, its description as of the last batch, and the version of which its state
    is empty."""
    metadata = folder / "_metadata" / _DESCRIPTION_VERSION
    metadata.mkdir(parents=True)
    store = {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 1, "stateSchemaFilePaths": []}
    described = {
        "operatorInfo": {"operatorId": number, "operatorName": _OPERATOR},
        "stateStoreInfo": [store],
        "operatorPropertiesJson": json.dumps(_PROPERTIES),
    }
    (metadata / str(version - 1)).write_text(f"{_DESCRIPTION_VERSION}\n{json.dumps(described)}")
    (folder / FIRST_VERSION).write_text(str(version))


def _differs(actual: str) -> UserError:
    return UserError(
        SqlState.FEATURE_NOT_SUPPORTED,
        f"the query cannot continue partly: its checkpoint has {actual}",
        hint="Nothing was changed. Start it anew, with 'query.replacement' = 'anew'.",
    )
