"""Identity of catalog and data directory: each stores the other's id, and a mismatch is refused at the start.

A catalog lists the queries whose checkpoints are in the directory, and the views whose rows are there. With another catalog, all of
these files look abandoned: a single start with a wrong HEADRACE_CATALOG_URL used to delete them.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Protocol

from headrace.catalog.keys import KEY_FILE
from headrace.catalog.objects import Organization
from headrace.core.atomic_file import write_atomically
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState

FILE = "identity.json"


@dataclass(frozen=True)
class Identity:
    """Identity of a data directory: the directory's id and its catalog's id."""

    directory: str
    catalog: str


class OrganizationRecord(Protocol):
    """The part of a catalog that keeps the organization, and with it the id of the data directory."""

    def organization(self) -> Organization:
        """Return the organization."""

    def update_organization(self, organization: Organization) -> None:
        """Replace the organization."""


def remains(directory: Path) -> list[str]:
    """Return the names of a catalog's files in a data directory: key, rows of views, checkpoints, identity."""
    checkpoints = directory / "checkpoints"
    names = [name for name in (KEY_FILE, "views.duckdb", FILE) if (directory / name).exists()]
    return [*names, *(["checkpoints"] if checkpoints.is_dir() and any(checkpoints.iterdir()) else [])]


def refuse_new(directory: Path, names: list[str]) -> None:
    """Raise UserError 3D008 if a new catalog's data directory contains files of another catalog."""
    if names:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"the catalog is new, but {directory} contains {', '.join(names)} of another catalog",
            hint="Restore the catalog (catalog.db, or the database of HEADRACE_CATALOG_URL) from a backup, or start with an empty data "
            "directory.",
        )


def refuse_unshared(organization: Organization, directory: Path) -> None:
    """Raise UserError 3D008 if a folder is not the one that the server which leads has bound to the catalog."""
    stored = _read(directory)
    if stored is None or (stored.catalog, stored.directory) != (organization.id, organization.data_directory):
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"HEADRACE_SHARED_DIR={directory} is not the folder of the server that leads: expected {organization.data_directory}, "
            f"found {stored.directory if stored else 'a folder without ' + FILE}",
            hint="Mount the same folder on both machines, and set HEADRACE_SHARED_DIR to it on both.",
        )


def bind(catalog: OrganizationRecord, directory: Path, *, adopt: bool) -> None:
    """Store the ids of a catalog and its data directory in each other at the first start; compare them at later starts.

    Raises UserError 3D008 for a directory of another catalog, and for a catalog of another directory. With `adopt`, the catalog accepts
    a directory without an identity as the replacement of a lost one.
    """
    organization, stored = catalog.organization(), _read(directory)
    if stored is not None and stored.catalog != organization.id:
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"the data directory {directory} belongs to another catalog: expected {stored.catalog}, found {organization.id}",
            hint="Check --data-dir and HEADRACE_CATALOG_URL. Nothing was changed.",
        )
    expected = organization.data_directory
    if (
        expected is not None
        and (stored is None or stored.directory != expected)
        and not (adopt and stored is None)
    ):
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"the catalog belongs to another data directory: expected {expected}, "
            f"found {stored.directory if stored else 'a new one'} at {directory}",
            hint="Check --data-dir and HEADRACE_CATALOG_URL. If that directory is lost, "
            "HEADRACE_ADOPT_DATA_DIR=true starts with this one: queries then start without their "
            "checkpoints, unless these are in S3, and views without their rows.",
        )
    if stored is None:
        stored = Identity(str(uuid.uuid4()), organization.id)
        # The file first: without its other half in the catalog it is completed at the next start, which the reverse is not.
        write_atomically(directory / FILE, json.dumps(asdict(stored)))
    if expected != stored.directory:
        catalog.update_organization(replace(organization, data_directory=stored.directory))


def _read(directory: Path) -> Identity | None:
    file = directory / FILE
    try:
        return Identity(**json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError):
        raise UserError(
            SqlState.INVALID_PARAMETER,
            f"cannot read the identity of the data directory in {file}",
            hint="Restore that file from a backup of the data directory.",
        ) from None
