"""`\\d name`: everything about one relation, from the system relations."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator

from headrace.cli.output import Printer, Sink, plain
from headrace.client import Client
from headrace.core.context import SessionContext
from headrace.core.resultset import Cell

_PART = r'(?:[^\W\d]\w*|"(?:[^"]|"")+")'
_TITLES = ("Kind", "Store", "Entity", "Primary key", "State", "Owner", "Description")
# Each ends where the name of the relation follows, as a string literal.
_RELATION = (
    "SELECT relation_type, store_name, entity, primary_key, state, owner, description "
    "FROM deltastream.sys.relations WHERE fqn = "
)
_QUERIES = "SELECT q.name, q.id, q.current_state, q.sink_fqn FROM deltastream.sys.queries q JOIN deltastream.sys.lineage l "
_WRITERS = _QUERIES + "ON l.source = q.id WHERE l.target_kind = 'relation' AND l.target = "
_READERS = _QUERIES + "ON l.target = q.id WHERE l.source_kind = 'relation' AND l.source = "
_GRANTS = "SELECT privilege, grantee_kind, grantee FROM deltastream.sys.grants WHERE name = "
_NAME = re.compile(rf"{_PART}(?:\.{_PART}){{0,2}}")


def is_name(text: str) -> bool:
    """True if a text is a name of at most three parts."""
    return _NAME.fullmatch(text) is not None


def full_name(text: str, context: SessionContext) -> str:
    """Return a relation's name as `fqn` of the system relations has it: three parts in double quotes."""
    parts = [part if part.startswith('"') else f'"{part.lower()}"' for part in re.findall(_PART, text)]
    names = (context.database or "", context.schema or "public")
    before = [f'"{name}"' for name in names][: 3 - len(parts)]
    return ".".join([*before, *parts])


async def describe_relation(client: Client, name: str, out: Printer, stream: Sink) -> None:
    """Print the columns of a relation, its place, its queries and its grants; raises ClientError."""
    answer = await client.execute(f"DESCRIBE RELATION COLUMNS {name}")
    out.start(answer.columns)
    out.write(answer.rows)
    out.finish()
    literal = "'" + full_name(name, client.context).replace("'", "''") + "'"
    for line in [line async for line in _facts(client, literal)]:
        stream.write(plain(line) + "\n")
    stream.flush()


async def _facts(client: Client, name: str) -> AsyncGenerator[str]:
    for row in await _rows(client, _RELATION + name):
        for title, cell in zip(_TITLES, row, strict=True):
            if cell:
                yield f"{title}: {cell}"
    for title, query in (("Written by", _WRITERS), ("Read by", _READERS)):
        rows = await _rows(client, query + name)
        if rows:
            yield f"{title}:"
        for named, identifier, state, sink in rows:
            yield f"    query {named or identifier} ({state}) into {sink}"
    grants = await _rows(client, _GRANTS + name)
    if grants:
        yield "Grants:"
    for privilege, kind, grantee in sorted(grants, key=str):
        yield f"    {privilege} to {kind} {grantee}"


async def _rows(client: Client, query: str) -> tuple[tuple[Cell, ...], ...]:
    return (await client.execute(query)).rows
