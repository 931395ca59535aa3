"""The state of a catalog as its database has it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import Any

from sqlalchemy import RowMapping, select

from headrace.catalog import future_grants, grants, principals, queries, tables
from headrace.catalog.kinds import KINDS
from headrace.catalog.kinds.spec import Path, Stored
from headrace.catalog.objects import Organization
from headrace.catalog.state import CatalogState
from headrace.catalog.storage import Storage
from headrace.catalog.times import moment

ORGANIZATION = "organization"


def load(storage: Storage) -> CatalogState:
    """Return everything except finished queries. Raises InternalError for data of a later release."""
    by_kind: dict[str, list[RowMapping]] = defaultdict(list)
    for row in storage.rows(select(tables.objects)):
        by_kind[row["kind"]].append(row)
    (only,) = by_kind[ORGANIZATION]
    definition = json.loads(only["definition"])
    paths: dict[str, Path] = {only["id"]: ()}
    objects: dict[str, dict[Path, Any]] = {}
    for spec in KINDS:
        of_kind = objects[spec.kind] = {}
        for row in by_kind[spec.kind]:
            path = paths[row["id"]] = (*paths[row["parent"]], row["name"])
            of_kind[path] = spec.read(
                Stored(
                    row["id"],
                    path,
                    row["owner"],
                    moment(row["created_at"]),
                    moment(row["updated_at"]),
                    spec.upgraded(json.loads(row["definition"])),
                )
            )
    uses: dict[str, frozenset[str]] = {}
    for row in storage.rows(select(tables.dependencies)):
        uses[row["object"]] = uses.get(row["object"], frozenset()) | {row["on"]}
    places = ((spec.parent, path[:-1]) for spec in KINDS for path in objects[spec.kind])
    return CatalogState(
        Organization(
            only["id"],
            only["name"],
            moment(only["created_at"]),
            definition.get("description"),
            definition.get("image"),
            definition.get("data_directory"),
        ),
        objects,
        uses,
        {row["id"]: row["sealed"] for rows in by_kind.values() for row in rows if row["sealed"] is not None},
        Counter(places),
        Counter(used for referenced in uses.values() for used in referenced),
        {query.id: query for query in queries.read(storage, tables.UNFINISHED)},
        principals.read(storage),
        grants.read_graph(storage),
        grants.read(storage),
        future_grants.read(storage),
    )
