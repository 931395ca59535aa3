"""COPY of a function source's or a descriptor source's file to a client, and the file that `GET /v2/download` answers with."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from urllib.parse import quote

from headrace.catalog.access import Privilege
from headrace.catalog.catalog import Catalog
from headrace.catalog.kinds import spec_of
from headrace.catalog.objects import DescriptorSource, FunctionSource, Principal
from headrace.catalog.policy import Requirement
from headrace.core.resultset import result
from headrace.core.types import BIGINT, VARCHAR
from headrace.sql.statements.copying import CopySource
from headrace.statements.base import Execution, Outcome, handles

Source = FunctionSource | DescriptorSource


def download_path(source: Source, run: Execution) -> str:
    """Return the file's path for clients, from the root of the server."""
    organization = run.catalog.organization().id
    return f"/v2/download/{spec_of(source).kind}/{organization}/{quote(source.name, safe='')}"


def _named(statement: CopySource, run: Execution) -> Source:
    if statement.kind == "FUNCTION_SOURCE":
        return run.function_source(statement.name)
    return run.descriptor_source(statement.name)


def _usage(statement: CopySource, run: Execution) -> Iterator[Requirement]:
    yield Requirement(Privilege.USAGE, _named(statement, run))


@handles(CopySource, requires=_usage)
async def copy_source(statement: CopySource, run: Execution) -> Outcome:
    """Return where the file is and its digest: the client fetches and stores it. Its own path stays with the client."""
    source = _named(statement, run)
    size, digest = (
        (source.size, source.digest)
        if isinstance(source, FunctionSource)
        else (len(source.descriptors), hashlib.sha256(source.descriptors).hexdigest())
    )
    columns = [("Name", VARCHAR), ("Url", VARCHAR), ("SizeBytes", BIGINT), ("Sha256", VARCHAR)]
    return Outcome(result(columns, [(source.name, download_path(source, run), size, digest)]))


def file_for(catalog: Catalog, principal: Principal, kind: str, organization: str, name: str) -> bytes | None:
    """Return the file of a source, None if it does not exist or no role of `principal` may use it; blocks.

    A request for a file names no role: one role of its sender with the privilege is enough.
    """
    state = catalog.snapshot()
    if organization not in (state.organization.id, state.organization.name):
        return None
    find = {"function_source": catalog.function_source, "descriptor_source": catalog.descriptor_source}
    source = find[kind](name) if kind in find else None
    roles = state.graph.roles_of(principal)
    if source is None or not any(state.policy.check(role, Privilege.USAGE, source) for role in roles):
        return None
    return catalog.file_of(source) if isinstance(source, FunctionSource) else source.descriptors
