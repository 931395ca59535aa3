"""Copy of a query's checkpoint as it was after a batch: what a savepoint contains, and what another query continues from.

A copy has the positions and the state after one batch. It has nothing of later batches, and nothing of the query's sink, since all its
rows up to that batch are delivered. RocksDB's files are never changed once written, so that they are linked, not copied: a copy of a
large state takes no longer than one of a small state, and no more space until the query has replaced the files.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.connectors.checkpoint_store import CheckpointStore, LocalFolder
from headrace.connectors.marks import RESUMED
from headrace.core.atomic_file import write_atomically
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.sqlstate import SqlState
from headrace.planner.physical import ReadEntity, ReadRows, SparkPlan

IDENTITIES = "identities.json"
"""The identities of the entities that the offsets belong to: see `engine.driver.identities`."""
FIRST_VERSION = "first_version"
"""The file of an operator that started in the midst of a checkpoint: the version of which its state is empty. Its files are numbered from
there."""
PARTS = "parts"
"""The folder of the checkpoints of an application's parts, in that of the application."""
VIEWS = "views.duckdb"
"""The rows of the materialized views that a query writes, in a copy of its checkpoint."""
Folder = tuple[str, ...]
"""A folder in that of a query, by the names on the way; empty for the folder itself."""
STATE_PARTITIONS = "spark.sql.shuffle.partitions"
"""The setting of Spark that each batch notes."""
_METADATA = "metadata"
_WATERMARK = "watermark"
_SOURCES = ("sources", "rows")
"""First offsets of Spark's sources, and the logs of ours."""
_STATE = "state"
DIVIDED = "state.for."
"""The first part of the name by which the new state of a query that is divided anew is complete, but not yet in the place of the old one;
the number of partitions follows. In a folder it is that of the new state, see `StatePartitions.scala`; in S3 it is a mark, see
`driver/state_partitions.py`."""
_VERSIONED = re.compile(r"(\d+)(?:_[^.]*)?\.(zip|changelog)")
_SST_FOLDER = "SSTs"
_OPERATORS = ("_metadata", "v2")
"""The folder of the descriptions of an operator, in which Spark writes whole paths."""
_OWN_PATH = re.compile(rb'"(?:file|s3):[^"]*(/state/\d+/_stateSchema/[^"]*|/spool/[^"/]*/[^"/]*)"')


@dataclass(frozen=True)
class Continuation:
    """Relation of a copied checkpoint to the query that continues from it.

    `folders` maps the folder of each part in the copy to that of the part which continues from it, and `views` the id of each view whose
    rows are copied to that of the view which continues with them.
    """

    folders: Mapping[Folder, Folder]
    views: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Border:
    """The last finished batch of a checkpoint; `is_interrupted` if a later one was begun. `is_final` if the query runs no batch after it.

    Of several checkpoints, `batch` is the sum, which grows with each of them.
    """

    batch: int
    is_interrupted: bool
    is_final: bool = False


def border(checkpoint: CheckpointStore) -> Border | None:
    """Return the last batch that a query has finished; None if it has finished none."""
    finished, planned = _newest(checkpoint, "commits"), _newest(checkpoint, "offsets")
    return None if finished is None else Border(finished, planned is not None and planned > finished)


def state_partitions(checkpoint: CheckpointStore, batch: int) -> int:
    """Return the number of partitions of the state after a batch."""
    _, facts, *_ = (checkpoint.read(f"offsets/{batch}") or b"").decode().splitlines()
    return int(json.loads(facts)["conf"][STATE_PARTITIONS])


def parts_of(checkpoint: Path) -> list[Path]:
    """Return the checkpoints in the folder of a query: its own, or one for each part of an application."""
    folder = checkpoint / PARTS
    return sorted(folder.iterdir()) if folder.is_dir() else [checkpoint]


def plans_of_parts(plan: SparkPlan) -> dict[Folder, SparkPlan]:
    """Return the parts of a plan, each with the folder of its checkpoint in that of the query."""
    parts = plan.parts()
    return {(PARTS, part.sink.id) if len(parts) > 1 else (): part for part in parts}


def has_batch(checkpoint: Path) -> bool:
    """Return True if the folder of a query contains a finished batch."""
    return any(border(LocalFolder(part)) is not None for part in parts_of(checkpoint))


def newest_batch(checkpoint: Path) -> int:
    """Return the newest batch that a checkpoint has planned; -1 without one."""
    newest = _newest(LocalFolder(checkpoint), "offsets")
    return -1 if newest is None else newest


def copy_at_rest(checkpoint: CheckpointStore, target: Path, plan: SparkPlan) -> Border:
    """Copy the checkpoint of a query that does not run, and whose parts have all finished a batch. Raises as `move_copy`."""
    borders = []
    with checkpoint.reading(target.parent) as copy:
        for folder, part in plans_of_parts(plan).items():
            last = border(LocalFolder(copy.joinpath(*folder)))
            if last is None:
                raise _missing(copy.joinpath(*folder, "commits"))
            copy_checkpoint(copy.joinpath(*folder), target.joinpath(*folder), last.batch, part)
            # Of a bucket, the copy was downloaded file by file.
            _refuse_changed(checkpoint.at(*folder), target.joinpath(*folder), last.batch)
            borders.append(last)
    return Border(sum(last.batch for last in borders), any(last.is_interrupted for last in borders))


def copy_whole(checkpoint: Path, target: Path) -> None:
    """Copy the checkpoint of a query that does not run, with the batch that it has begun and with what its sink keeps. The target does
    not exist. Raises OSError."""
    for source in _files(checkpoint):
        name = source.relative_to(checkpoint)
        copied = target / name
        if _STATE in name.parts[:-1]:
            _link(source, copied)
        else:
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copied)


def relocate(checkpoint: Path, target: Path, final: CheckpointStore) -> None:
    """Copy a checkpoint, whose query continues in the place `final`, file by file. Raises OSError."""
    for source in _files(checkpoint):
        name = source.relative_to(checkpoint)
        copied = target / name
        copied.parent.mkdir(parents=True, exist_ok=True)
        if _names_paths(source):
            _write_moved(source, copied, final)
        else:
            shutil.copyfile(source, copied)


def move_copy(source: CheckpointStore, target: CheckpointStore, beside: Path) -> None:
    """Copy the checkpoint of a query that does not run to the place in which it continues. Temporary copies are in the folder `beside`.

    Raises OSError, UserError 3E003 for state that a driver was dividing when it ended, and HeadraceError as S3Folder.
    """
    with source.reading(beside) as checkpoint, target.writing(beside) as folder:
        for part in parts_of(checkpoint):
            _refuse_divided(LocalFolder(part))
            name = part.relative_to(checkpoint)
            relocate(part, folder / name, target.at(*name.parts))


def copy_checkpoint(checkpoint: Path, target: Path, batch: int, plan: SparkPlan) -> None:
    """Copy the checkpoint of a plan as it was after a batch. The target does not exist.

    May run while the query waits, and while Spark deletes files of earlier batches. Raises OSError, FileNotFoundError with the path of
    a file of that batch that is missing, and UserError 3E003 while the state takes the place of one with other partitions.
    """
    target.mkdir(parents=True)
    _copy_logs(checkpoint, target, batch)
    _refuse_divided(LocalFolder(checkpoint))
    for name in _SOURCES:
        if (checkpoint / name).is_dir():
            shutil.copytree(checkpoint / name, target / name, ignore=_hidden)
    for name in (_METADATA, _WATERMARK):
        if (checkpoint / name).is_file():
            shutil.copyfile(checkpoint / name, target / name)
    if (checkpoint / IDENTITIES).is_file():
        known = json.loads((checkpoint / IDENTITIES).read_text())
        reads = {step.id for step in plan.steps if isinstance(step, ReadEntity | ReadRows)}
        kept = {step: entities for step, entities in known.items() if step in reads}
        write_atomically(target / IDENTITIES, json.dumps(kept))
    for source in _state_files(checkpoint / _STATE, batch + 1):
        _link(source, target / source.relative_to(checkpoint))
    _refuse_changed(LocalFolder(checkpoint), target, batch)


def _refuse_changed(checkpoint: CheckpointStore, copy: Path, batch: int) -> None:
    """Raise UserError 3E003 if the state was divided anew while it was copied."""
    # The log has the new number before the new state is in its place.
    log = f"offsets/{batch}"
    _refuse_divided(checkpoint, changed=checkpoint.read(log) != (copy / log).read_bytes())


def _refuse_divided(checkpoint: CheckpointStore, *, changed: bool = False) -> None:
    if changed or any(name.startswith(DIVIDED) for name in checkpoint.names("")):
        raise UserError(
            SqlState.RELATION_NOT_READY,
            "the state of the query is being divided into other partitions",
            hint="Repeat the statement when the query runs. If it does not run, RESTART QUERY completes its state.",
        )


def place_checkpoint(copy: Path, final: CheckpointStore, batch: int) -> None:
    """Let a new query continue from a copy that was taken after a batch. Raises OSError, and HeadraceError as S3Folder; then nothing is
    left."""
    with final.writing(copy.parent) as checkpoint:
        _place(copy, checkpoint, final, batch)


def place_parts(copy: Path, final: CheckpointStore, continuation: Continuation) -> None:
    """Let a new query continue from a copy, part by part. Raises as `place_checkpoint`."""
    with final.writing(copy.parent) as checkpoint:
        for before, after in continuation.folders.items():
            part = copy.joinpath(*before)
            last = border(LocalFolder(part))
            if last is None:
                raise _missing(part / "commits")
            _place(part, checkpoint.joinpath(*after), final.at(*after), last.batch)


def _place(copy: Path, checkpoint: Path, final: CheckpointStore, batch: int) -> None:
    for source in _files(copy):
        if source == copy / VIEWS:
            continue
        target = checkpoint / source.relative_to(copy)
        target.parent.mkdir(parents=True, exist_ok=True)
        if _names_paths(source):
            _write_moved(source, target, final)
        elif source.relative_to(copy).parts[0] == _STATE:
            _link(source, target)
        else:
            shutil.copyfile(source, target)
    # Spark refuses to run two queries with one id.
    write_atomically(checkpoint / _METADATA, json.dumps({"id": str(uuid.uuid4())}))
    write_atomically(checkpoint / RESUMED, str(batch))


def _names_paths(file: Path) -> bool:
    """True for the description of an operator, and for the log of a source, which may read files of the checkpoint."""
    return file.parts[-3:-1] == _OPERATORS or file.parts[-3:-2] == _SOURCES[:1]


def _write_moved(source: Path, target: Path, final: CheckpointStore) -> None:
    """Copy a file that names files of its checkpoint, with the paths that these have in another checkpoint."""
    folder = (f"file:{final.uri}" if isinstance(final, LocalFolder) else final.uri).encode()
    target.write_bytes(_OWN_PATH.sub(lambda path: b'"%b%b"' % (folder, path[1]), source.read_bytes()))


def no_batch(query_id: str, part: str = "") -> UserError:
    """Return the error for a query whose checkpoint has no position, or for the part of an application with that sink."""
    subject = f"the part {part} of the query {query_id}" if part else f"the query {query_id}"
    return UserError(
        SqlState.RELATION_NOT_READY,
        f"{subject} has not finished a batch: there is no position to continue from",
        hint=f"Repeat the statement later. EXPLAIN WHY {query_id}; shows the cause.",
    )


def too_slow(query_id: str) -> UserError:
    """Return the error for a copy that took longer than a query waits for it."""
    return UserError(
        SqlState.TIMEOUT,
        f"the copy of the checkpoint of the query {query_id} took too long, so that it may be outdated: nothing was changed",
        hint="Repeat the statement when the server has less to do, or TERMINATE the query first.",
    )


def copy_failure(error: OSError) -> HeadraceError:
    """Return the error for a checkpoint that cannot be copied or created: XX001 for a file that is missing, else 53000."""
    if isinstance(error, FileNotFoundError):
        return UserError(
            SqlState.DATA_CORRUPTED,
            f"the checkpoint has no file {Path(str(error.filename)).name}, which its last batch needs",
            hint="RESTART QUERY shows whether the query itself can continue.",
        )
    return ExternalError(
        SqlState.CONFIGURATION_LIMIT_EXCEEDED,
        f"the checkpoint could not be written: {error.strerror or error}",
        hint="Free space on the disk of the data directory, and look at the rights of the server there.",
    )


def _missing(file: Path) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(file))


def _newest(checkpoint: CheckpointStore, log: str) -> int | None:
    return max((int(name) for name in checkpoint.names(log) if name.isdecimal()), default=None)


def _copy_logs(checkpoint: Path, target: Path, batch: int) -> None:
    for log in ("offsets", "commits"):
        (target / log).mkdir()
        for path in (checkpoint / log).glob("*"):
            if path.name.isdecimal() and int(path.name) <= batch:
                try:
                    shutil.copyfile(path, target / log / path.name)
                except FileNotFoundError:
                    # Spark deletes entries that are a hundred batches old.
                    if int(path.name) >= batch - 1:
                        raise


def _hidden(_folder: str, names: list[str]) -> list[str]:
    """Return the names of checksums and unfinished files."""
    return [name for name in names if name.startswith(".")]


def _files(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        yield from (Path(parent, name) for name in names if not name.startswith("."))


def _state_files(state: Path, version: int) -> Iterator[Path]:
    """Yield the files that Spark reads to load a version of the state, and the descriptions of the operators."""
    for parent, folders, names in os.walk(state):
        if _SST_FOLDER in folders:
            folders.remove(_SST_FOLDER)
        first = _first_version(state, Path(parent))
        names = [name for name in names if not name.startswith(".")]
        versions = [(match, name) for name in names if (match := _VERSIONED.fullmatch(name)) is not None]
        if versions:
            yield from _store_files(
                Path(parent),
                {(int(m[1]), m[2]): Path(parent, name) for m, name in versions},
                version - first,
            )
        yield from (Path(parent, name) for name in names if _VERSIONED.fullmatch(name) is None)


def _first_version(state: Path, folder: Path) -> int:
    """Return the version of which the state of the operator of a folder is empty."""
    operator = folder.relative_to(state).parts[:1]
    file = state.joinpath(*operator, FIRST_VERSION)
    return int(file.read_text()) if operator and file.is_file() else 0


def _store_files(store: Path, files: dict[tuple[int, str], Path], version: int) -> Iterator[Path]:
    """Yield the newest snapshot up to a version with its files, and the changes from it to the version."""
    snapshot = max((number for number, kind in files if kind == "zip" and number <= version), default=0)
    if snapshot:
        archive = files[snapshot, "zip"]
        yield archive
        yield from (store / _SST_FOLDER / name for name in _sst_names(archive))
    for number in range(snapshot + 1, version + 1):
        if (number, "changelog") not in files:
            raise _missing(store / f"{number}.changelog")
        yield files[number, "changelog"]


def _sst_names(archive: Path) -> list[str]:
    with zipfile.ZipFile(archive) as content:
        described = content.read("metadata").decode()
    return [file["dfsSstFileName"] for file in json.loads(described.partition("\n")[2])["sstFiles"]]


def _link(source: Path, target: Path) -> None:
    """Link a file, or copy it to another file system."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(source, target)
