"""Writing answers: the one JSON shape of results, errors and statements under way (client-contract section 1.2)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from starlette.responses import Response

from headrace.core.context import SessionContext
from headrace.core.errors import Diagnostic
from headrace.core.resultset import ResultSet
from headrace.core.sqlstate import SqlState
from headrace.server.dataplane.tickets import Ticket
from headrace.session.checking import Checked
from headrace.statements.completion import Completion
from headrace.statements.desired_state import Plan
from headrace.statements.language import Language


@dataclass(frozen=True)
class Succeeded:
    """A bounded result."""

    result: ResultSet
    context: SessionContext
    statement_ids: tuple[str, ...]


@dataclass(frozen=True)
class Streaming:
    """A live result, for the holder of the ticket."""

    ticket: Ticket
    context: SessionContext
    statement_ids: tuple[str, ...]


@dataclass(frozen=True)
class Failed:
    """A SQL error, in parts and as the text of them all. `context` is that before the request: a text that fails changes no names,
    whatever it got done."""

    error: Diagnostic
    text: str
    context: SessionContext


@dataclass(frozen=True)
class TurnedAway:
    """The statement waited for its turn in vain; it is an HTTP error, not a SQL one."""


Answer = Succeeded | Streaming | Failed | TurnedAway


@dataclass(frozen=True)
class Envelope:
    """Common part of every answer: the statement's UUID, and POSIX seconds (clients refuse fractions)."""

    statement_id: str
    created_on: int


def under_way(envelope: Envelope) -> Response:
    """Return 202: poll again."""
    return _json(202, {"sqlState": SqlState.NOT_YET_COMPLETE.value, **_head(envelope)})


def page_count(answer: Answer, rows_max: int) -> int:
    """Return the number of partitions; an empty result and an error have one."""
    rows = len(answer.result.rows) if isinstance(answer, Succeeded) else 0
    return max(1, -(-rows // rows_max))


def finished(
    envelope: Envelope,
    answer: Succeeded | Streaming | Failed,
    *,
    partition: int,
    rows_max: int,
    stream_uri: str,
) -> Response:
    """Return 200 with one partition of a result, the offer of a stream, or a SQL error, which is a 200 too."""
    metadata: dict[str, object] = {
        "encoding": "json",
        "columns": _columns(answer),
        "partitionInfo": _partitions(answer, rows_max),
        "context": _context(answer.context),
    }
    body: dict[str, object] = {
        "sqlState": SqlState.SUCCESS.value,
        **_head(envelope),
        "metadata": metadata,
        "data": [],
    }
    if isinstance(answer, Failed):
        body["sqlState"] = answer.error.sqlstate
        body["message"] = answer.text
        body["error"] = error_parts(answer.error)
        return _json(200, body)
    if len(answer.statement_ids) > 1:
        body["statementIDs"] = answer.statement_ids
    if isinstance(answer, Streaming):
        metadata["dataplaneRequest"] = {
            "token": answer.ticket.token,
            "uri": stream_uri,
            "statementID": envelope.statement_id,
            "requestType": "streaming",
        }
        if answer.ticket.result.message:
            body["message"] = answer.ticket.result.message
        return _json(200, body)
    if answer.result.message:
        body["message"] = answer.result.message
    body["data"] = answer.result.rows[partition * rows_max : (partition + 1) * rows_max]
    return _json(200, body)


def checked(result: Checked) -> Response:
    """Return 200 with the errors and the statements of a text that was not run."""
    statements = [
        {
            "kind": each.kind,
            "position": asdict(each.span),
            **({"query": asdict(each.query)} if each.query is not None else {}),
        }
        for each in result.statements
    ]
    diagnostics = [error_parts(diagnostic) for diagnostic in result.diagnostics]
    return _json(200, {"diagnostics": diagnostics, "statements": statements})


def planned(plan: Plan) -> Response:
    """Return 200 with the steps to a desired state, or the errors of its text."""
    steps = [
        {
            "action": step.action.value,
            "kind": step.kind,
            "name": step.name,
            "notes": step.notes,
            "context": _context(step.context),
            **({"statement": step.statement} if step.statement is not None else {}),
            **({"position": asdict(step.span)} if step.span is not None else {}),
        }
        for step in plan.steps
    ]
    return _json(200, {"steps": steps, "diagnostics": [error_parts(each) for each in plan.diagnostics]})


def completed(completion: Completion) -> Response:
    """Return 200 with the candidates of a completion."""
    return _json(200, asdict(completion))


def described(language: Language) -> Response:
    """Return 200 with the language."""
    body = asdict(language)
    body["storeTypes"] = body.pop("store_types")
    for facts in body["properties"]:
        facts["storeType"] = facts.pop("store_type")
        facts["secret"] = facts.pop("is_secret")
    return _json(200, body)


def error_parts(error: Diagnostic) -> dict[str, object]:
    """Return the known parts of an error."""
    parts: dict[str, object] = {
        "severity": error.severity,
        "sqlState": error.sqlstate,
        "message": error.message,
        "expected": error.expected,
        "found": error.received,
        "hint": error.hint,
        "replacements": list(error.replacements) or None,
        "position": asdict(error.span) if error.span is not None else None,
    }
    return {name: part for name, part in parts.items() if part is not None}


def _head(envelope: Envelope) -> dict[str, object]:
    return {"statementID": envelope.statement_id, "createdOn": envelope.created_on}


def _columns(answer: Succeeded | Streaming | Failed) -> list[dict[str, object]]:
    if isinstance(answer, Failed):
        return []
    columns = answer.ticket.result.columns if isinstance(answer, Streaming) else answer.result.columns
    return [
        {"name": column.name, "type": str(column.type), "nullable": column.nullable} for column in columns
    ]


def _partitions(answer: Answer, rows_max: int) -> list[dict[str, int]]:
    if not isinstance(answer, Succeeded) or not answer.result.rows:
        return []
    rows = len(answer.result.rows)
    return [{"rowCount": min(rows_max, rows - start)} for start in range(0, rows, rows_max)]


def _context(context: SessionContext) -> dict[str, str]:
    """Return the names that are set: Go forgets missing ones, the other clients keep them."""
    names = {
        "organizationID": context.organization_id,
        "roleName": context.role,
        "databaseName": context.database,
        "schemaName": context.schema,
        "storeName": context.store,
        "computePoolName": context.compute_pool,
    }
    return {name: value for name, value in names.items() if value}


def _json(status: int, body: dict[str, object]) -> Response:
    # ASCII only: a lone surrogate in the data cannot be encoded as UTF-8.
    text = json.dumps(body, ensure_ascii=True, separators=(",", ":"))
    return Response(text, status_code=status, media_type="application/json")
