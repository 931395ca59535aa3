"""Figures of requests over a catalog of 10,000 relations: `python -m benchmarks.catalog_requests` prints JSON.

The application is in process, without a socket. `p50_ms`, `p99_ms` and the processor time of

- GraphQL: the first page of 50 relations with ten columns, the last page, a page with linked columns, each with `totalCount`;
- the editor: completion behind FROM, and of a column, and the errors of a statement (`/v2/complete`, `/v2/validate`).

`schema_ms` is the time to generate the schema.
"""

from __future__ import annotations

import asyncio
import json
import logging
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import structlog

from harness.session import NOW, Session, open_session
from headrace.catalog.objects import Relation, RelationKind
from headrace.core.names import RelationName
from headrace.core.schema import Column, Schema
from headrace.core.settings import Settings
from headrace.core.types import BIGINT
from headrace.server.app import create_app
from headrace.server.graphql.schema import schema_of
from headrace.server.ports import ServerParts

RELATIONS, RUNS, WARM_UP = 10_000, 50, 5
_FIELDS = "databaseName schemaName name fqn relationType state owner createdAt updatedAt storeName"
DOCUMENTS = {
    "first_page": f"query ($after: String) {{ relations(after: $after) {{ totalCount pageInfo {{ endCursor }} nodes {{ {_FIELDS} }} }} }}",
    "linked_page": "{ relations(first: 20) { totalCount nodes { fqn columns(first: 5) { nodes { name type } } store { name } } } }",
}

_JOIN = "SELECT a.c1, b.c2 FROM shop.public.relation_00001 a JOIN shop.public.relation_00002 b WITHIN 5 MINUTES ON a.c1 = b.c1"
EDITING = {
    "completed_relation": ("/v2/complete", "SELECT * FROM shop.public.relation_0", 36, "candidates"),
    "completed_column": ("/v2/complete", f"{_JOIN} WHERE a.c", len(f"{_JOIN} WHERE a.c"), "candidates"),
    "errors": ("/v2/validate", f"{_JOIN} WHERE a.nothing = 1", 0, "diagnostics"),
}
"""Path, statement, position, and the part of the answer that must not be empty."""


def main() -> None:
    """Measure each document."""
    # Standard output is for the figures.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    print(json.dumps(asyncio.run(_figures()), indent=1))


async def _figures() -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        async with open_session(Path(folder)) as session:
            _stock(session)
            settings = Settings(data_dir=Path(folder))
            start = time.perf_counter()
            schema_of(settings)
            figures: dict[str, object] = {"schema_ms": round((time.perf_counter() - start) * 1000)}
            parts = ServerParts(
                settings, session.service, {"token": session.principal}.get, reader=session.service
            )
            transport = httpx.ASGITransport(create_app(parts))
            headers = {"Authorization": "Bearer token"}
            async with httpx.AsyncClient(
                transport=transport, base_url="http://localhost", headers=headers
            ) as http:
                for name, document in DOCUMENTS.items():
                    figures[name] = await _page(http, document, None)
                figures["last_page"] = await _page(http, DOCUMENTS["first_page"], await _last_cursor(http))
                for name, (path, text, offset, key) in EDITING.items():
                    body = {"statement": text, "offset": offset} if offset else {"statement": text}
                    figures[name] = await _measured(
                        http, path, body, lambda answer, key=key: bool(answer[key])
                    )
        return figures


def _stock(session: Session) -> None:
    template = next(each for each in session.catalog.relations() if each.kind is RelationKind.STREAM)
    with session.catalog.transaction():
        for relation in _relations(template):
            session.catalog.create_relation(relation)


def _relations(template: Relation) -> Iterator[Relation]:
    columns = Schema(tuple(Column(f"c{number}", BIGINT) for number in range(10)))
    for number in range(RELATIONS - 3):
        name = RelationName("shop", "public", f"relation_{number:05}")
        yield replace(
            template,
            name=name,
            schema=columns,
            entity=(name.name,),
            id=str(uuid.uuid4()),
            created_at=NOW,
            updated_at=NOW,
        )


async def _last_cursor(http: httpx.AsyncClient) -> str:
    """Return the cursor of the row before the last 50."""
    document = """query ($after: String) {
      relations(first: 1000, after: $after) { pageInfo { endCursor } edges { cursor } } }"""
    after = None
    for _ in range(RELATIONS // 1000):
        answer = await http.post("/graphql", json={"query": document, "variables": {"after": after}})
        page = answer.json()["data"]["relations"]
        after, cursors = page["pageInfo"]["endCursor"], page["edges"]
    return str(cursors[-51]["cursor"])


async def _page(http: httpx.AsyncClient, document: str, after: str | None) -> dict[str, float]:
    return await _measured(
        http,
        "/graphql",
        {"query": document, "variables": {"after": after} if after else None},
        lambda answer: answer["data"]["relations"]["totalCount"] == RELATIONS,
    )


async def _measured(
    http: httpx.AsyncClient, path: str, body: dict[str, object], is_right: Callable[[Any], bool]
) -> dict[str, float]:
    times: list[float] = []
    before = time.process_time()
    for number in range(WARM_UP + RUNS):
        start = time.perf_counter()
        answer = await http.post(path, json=body)
        elapsed = (time.perf_counter() - start) * 1000
        if not is_right(answer.json()):
            raise RuntimeError(answer.text[:500])
        if number >= WARM_UP:
            times.append(elapsed)
    return {
        "p50_ms": round(statistics.median(times), 1),
        "p99_ms": round(statistics.quantiles(times, n=100)[98], 1),
        "processor_ms": round((time.process_time() - before) / (WARM_UP + RUNS) * 1000, 1),
    }


if __name__ == "__main__":
    main()
