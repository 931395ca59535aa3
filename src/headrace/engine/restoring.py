"""Restoring of a backup into an empty data directory, without a server. ADR 65."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace import __version__
from headrace.connectors.checkpoint_store import LocalFolder
from headrace.core.errors import ExternalError, UserError
from headrace.core.sqlstate import SqlState
from headrace.engine.backups import CHECKPOINTS, FORMAT, MANIFEST
from headrace.engine.checkpoint_copy import parts_of, relocate
from headrace.engine.digests import digests


def restore(backup: Path, directory: Path) -> None:
    """Write the data directory that a backup contains. The directory is missing or empty; after an error it is as before.

    Raises UserError 3D008 for a folder that is no complete backup, and for a directory with files; 0A000 for a backup of a later release;
    XX001 for a changed file; ExternalError 53000 if the disk is full.
    """
    directory = directory.resolve()
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"the data directory {directory} is not empty",
            hint="Name an empty or a new directory with --data-dir.",
        )
    _refuse_damaged(backup, _manifest(backup))
    unfinished = directory.with_name(f"{directory.name}.restoring")
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True, mode=0o700)
        for path in backup.iterdir():
            if path.name == CHECKPOINTS:
                _restore_checkpoints(path, unfinished / CHECKPOINTS, directory / CHECKPOINTS)
            elif path.is_dir():
                shutil.copytree(path, unfinished / path.name)
            elif path.name != MANIFEST:
                shutil.copy(path, unfinished / path.name)
        os.replace(unfinished, directory)
    except OSError as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise ExternalError(
            SqlState.CONFIGURATION_LIMIT_EXCEEDED,
            f"the backup could not be written to {directory}: {error.strerror or error}",
            hint="Free space on that disk, and look at the rights there. Nothing was changed.",
        ) from error


def _manifest(backup: Path) -> Mapping[str, Any]:
    try:
        content: Mapping[str, Any] = json.loads((backup / MANIFEST).read_text(encoding="utf-8"))
        form, version, _ = content["format"], content["version"], content["files"]
        later = form > FORMAT or _numbers(version) > _numbers(__version__)
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"{backup} is not a complete backup: it has no readable {MANIFEST}",
            hint="headrace backup writes that file last. Use another backup.",
        ) from None
    if later:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"the backup was written by Headrace {version}, expected {__version__} or an earlier one",
            hint=f"Install Headrace {version}, and restore the backup with it.",
        )
    return content


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")[:3]]


def _refuse_damaged(backup: Path, manifest: Mapping[str, Any]) -> None:
    """Raise UserError XX001 with the names of files that are missing, changed or unknown."""
    expected = {name: tuple(facts) for name, facts in manifest["files"].items()}
    present = {name: facts for name, facts in digests(backup).items() if name != MANIFEST}
    damaged = [
        name for name in sorted(expected.keys() | present.keys()) if expected.get(name) != present.get(name)
    ]
    if damaged:
        more = f" and {len(damaged) - 1} more" if len(damaged) > 1 else ""
        raise UserError(
            SqlState.DATA_CORRUPTED,
            f"the file {damaged[0]}{more} of the backup was changed, is missing, or was added",
            hint="Nothing was restored. Use another backup.",
        )


def _restore_checkpoints(backup: Path, folder: Path, final: Path) -> None:
    for checkpoint in backup.iterdir():
        for part in parts_of(checkpoint):
            name = part.relative_to(backup)
            relocate(part, folder / name, LocalFolder(final / name))
