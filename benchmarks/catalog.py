"""Cost of the catalog with many relations, without a server: `python -m benchmarks.catalog`, with `--url` on PostgreSQL.

Prints, for 10,000 relations: making one, lists and SELECTs of them, checking a SELECT of 100 lines, a one-row statement at the 99th
percentile, RENAME, a snapshot for binding, a privilege check, small DDL from 16 sessions at a time, opening the catalog again, and the
memory of this process. Processor time stands beside the wall's, for machines that have other
things to do.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import gc
import logging
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import structlog

from headrace.catalog.access import Grant, Privilege
from headrace.catalog.catalog import Catalog
from headrace.catalog.kinds.namespace import DATABASE, SCHEMA
from headrace.catalog.objects import Principal, Relation, RelationKind, Store
from headrace.catalog.policy import Policy, RoleGraph
from headrace.core.context import SessionContext
from headrace.core.names import RelationName
from headrace.core.schema import Column, Schema
from headrace.core.settings import Settings
from headrace.core.types import BIGINT, VARCHAR
from headrace.engine.engine import Engine
from headrace.session import StatementService
from headrace.sql import parse
from headrace.statements.base import Services

RELATIONS, SESSIONS, STATEMENTS = 10_000, 16, 3_200
ROLES, GRANTS, CHECKS = 1_000, 100_000, 100_000
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
TEXTS = (
    "LIST RELATIONS",
    "LIST RELATIONS WHERE name = 'r77' OR name IN ('r78')",
    "SELECT name, fqn FROM deltastream.sys.relations",
    "SELECT name FROM deltastream.sys.relations WHERE name = 'r77'",
    "SELECT COUNT(*) FROM deltastream.sys.relation_columns",
    "DESCRIBE RELATION r77",
)
WHO = Principal("admin", ("sysadmin",), "sysadmin")


def main() -> None:
    """Measure in a folder that is thrown away."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="an empty PostgreSQL database, instead of a file")
    url = parser.parse_args().url
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with tempfile.TemporaryDirectory() as folder:
        catalog = Catalog.open(Path(folder), url)
        catalog.create_database("d", "sysadmin")
        catalog.create_store(Store("k", "kafka", "sysadmin", NOW, NOW, {"uris": "localhost:1"}))
        with measured("a relation made", RELATIONS):
            for number in range(RELATIONS):
                catalog.create_relation(_relation(number))
        gc.freeze()  # as the server does with what it has read
        asyncio.run(_statements(catalog, Settings(data_dir=Path(folder))))
        gc.unfreeze()
        _checks(catalog)
        with measured("a snapshot", 1_000):
            for _ in range(1_000):
                catalog.snapshot().relation(RelationName("d", "public", "r77"))
        catalog.close()
        with measured("the catalog opened"):
            catalog = Catalog.open(Path(folder), url)
        catalog.close()
        print(f"memory of the process: {psutil.Process().memory_info().rss >> 20} MiB")


@contextmanager
def measured(what: str, times: int = 1) -> Iterator[None]:
    """Print how long one of `times` took."""
    wall, busy = time.perf_counter(), time.process_time()
    yield
    wall, busy = time.perf_counter() - wall, time.process_time() - busy
    rate = f", {times / wall:,.0f}/s" if times > 1 else ""
    print(
        f"{what}: {1000 * wall / times:.3f} ms, of which processor {1000 * busy / times:.3f} ms{rate}, load {os.getloadavg()[0]:.0f}",
        flush=True,
    )


async def _statements(catalog: Catalog, settings: Settings) -> None:
    engine = Engine(catalog, settings)
    service = StatementService(Services(catalog, engine, settings))
    context = SessionContext("", database="d", schema="public")

    async def session(number: int) -> None:
        for turn in range(STATEMENTS // SESSIONS // 2):
            name = f"s{number}_{turn}"
            for text in (f"CREATE SCHEMA {name}", f"DROP SCHEMA {name}"):
                await service.execute(text, principal=WHO, context=context)

    for text in TEXTS:
        await service.execute(
            text, principal=WHO, context=context
        )  # what is read first is slower: DuckDB, pyarrow
        with measured(text, 10):
            for _ in range(10):
                await service.execute(text, principal=WHO, context=context)
    lines = ",\n".join(
        f"  CASE WHEN c{number % 9} LIKE '%x' THEN id + {number} END AS a{number}" for number in range(98)
    )
    with measured("a SELECT of 100 lines read", 10):
        for _ in range(10):
            parse(f"SELECT\n{lines}\nFROM r77")
    with measured("EXPLAIN of it: read, bound and planned", 10):
        for _ in range(10):
            await service.execute(f"EXPLAIN SELECT\n{lines}\nFROM r77", principal=WHO, context=context)
    took = []
    for number in range(500):
        began = time.perf_counter()
        await service.execute(f"DESCRIBE RELATION r{number}", principal=WHO, context=context)
        took.append(1000 * (time.perf_counter() - began))
    print(
        f"DESCRIBE RELATION, of 500 the 99th percentile: {sorted(took)[494]:.3f} ms, load {os.getloadavg()[0]:.0f}"
    )
    with measured("RENAME of a relation", 10):
        for turn in range(10):
            old, new = ("r77", "x77") if turn % 2 == 0 else ("x77", "r77")
            await service.execute(f"ALTER RELATION {old} RENAME TO {new}", principal=WHO, context=context)
    with measured(f"small DDL from {SESSIONS} sessions", STATEMENTS):
        await asyncio.gather(*(session(number) for number in range(SESSIONS)))
    await engine.stop()


def _checks(catalog: Catalog) -> None:
    """Privileges of roles that inherit each other, ten deep, on relations with grants."""
    names = [f"role{number}" for number in range(ROLES)]
    beneath = {
        name: frozenset({names[number + 1]} if number % 10 != 9 else ()) for number, name in enumerate(names)
    }
    state = catalog.snapshot()
    relations = state.relations()
    granted: dict[str, dict[Privilege, dict[str, Grant]]] = {}
    for number in range(GRANTS):
        target = relations[number % RELATIONS]
        role = names[(number * 7) % ROLES]
        of_object = granted.setdefault(target.id, {Privilege.SELECT: {}})
        of_object[Privilege.SELECT][role] = Grant(target.id, Privilege.SELECT, role, "sysadmin")
    for place in (*state.all(DATABASE), *state.all(SCHEMA, ("d",))):
        granted[place.id] = {
            Privilege.USAGE: {name: Grant(place.id, Privilege.USAGE, name, "sysadmin") for name in names}
        }
    policy = Policy(state.organization, state.objects, RoleGraph(beneath), granted)
    with measured(f"a privilege check with {ROLES:,} roles and {GRANTS:,} grants", CHECKS):
        for number in range(CHECKS):
            policy.check(names[number % ROLES], Privilege.SELECT, relations[(number * 13) % RELATIONS])


def _relation(number: int) -> Relation:
    columns = (Column("id", BIGINT), *(Column(f"c{index}", VARCHAR) for index in range(9)))
    return Relation(
        RelationName("d", "public", f"r{number}"),
        RelationKind.STREAM,
        Schema(columns),
        "sysadmin",
        NOW,
        NOW,
        store="k",
        entity=(f"topic{number}",),
        properties={"value.format": "JSON"},
    )


if __name__ == "__main__":
    main()
