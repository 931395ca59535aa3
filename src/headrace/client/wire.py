"""The JSON of the protocol, read into values: the only place that knows its field names."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from headrace import __version__
from headrace.client.errors import ConnectionFailedError
from headrace.core.context import SessionContext
from headrace.core.errors import Diagnostic, Span
from headrace.core.resultset import Cell

SUCCESS = "00000"
AGENT = f"headrace/{__version__}"
"""What the client calls itself."""

STILL_RUNNING = "03000"


@dataclass(frozen=True)
class AnswerColumn:
    """A column; `type` is the text of a data type."""

    name: str
    type: str
    nullable: bool


@dataclass(frozen=True)
class Candidate:
    """A text that can be typed at a position; `insert` replaces what is typed of it."""

    label: str
    kind: str
    insert: str
    detail: str
    documentation: str


@dataclass(frozen=True)
class Completion:
    """Candidates for the text from `start` to `end`, offsets in code points."""

    start: int
    end: int
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True)
class PlanStep:
    """A step to a desired state: `action` is create, update, replace, leave, drop or conflict. A `statement` runs in `context`."""

    action: str
    kind: str
    name: str
    notes: tuple[str, ...]
    context: SessionContext
    statement: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Plan:
    """Steps to a desired state, and the errors of its text."""

    steps: tuple[PlanStep, ...]
    diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True)
class DeviceCode:
    """A started sign-in: the `code` to enter at `address`; `direct` is an address that contains it. The client polls with `secret`."""

    address: str
    code: str
    direct: str | None
    interval_s: float
    secret: str = field(repr=False)


@dataclass(frozen=True)
class StreamOffer:
    """Address of a live result's rows, and the ticket for it."""

    uri: str
    token: str = field(repr=False)


@dataclass(frozen=True)
class StreamStart:
    """First frame of a stream; `changelog_key` names the key columns of a changelog (empty: not selected), or is None."""

    changelog_key: tuple[str, ...] | None


@dataclass(frozen=True)
class StatementAnswer:
    """Answer of the control plane to one request."""

    sqlstate: str
    statement_id: str
    message: str
    columns: tuple[AnswerColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]
    partitions: int
    context: SessionContext
    stream: StreamOffer | None


def request_body(text: str, context: SessionContext, session_id: str) -> dict[str, object]:
    """Return a submission; names that are not set are left out."""
    names = {
        "organization": context.organization_id,
        "role": context.role,
        "database": context.database,
        "schema": context.schema,
        "store": context.store,
        "computePool": context.compute_pool,
    }
    set_names = {name: value for name, value in names.items() if value}
    return {
        "statement": text,
        **set_names,
        "parameters": {"timezone": context.timezone, "sessionID": session_id},
    }


def read_answer(body: Any, sent: SessionContext) -> StatementAnswer:
    """Parse the response to a statement that was sent in the context `sent`. Raises ConnectionFailedError for any other content."""
    try:
        metadata = body.get("metadata") or {}
        offered = metadata.get("dataplaneRequest")
        return StatementAnswer(
            sqlstate=str(body["sqlState"]),
            statement_id=str(body["statementID"]),
            message=body.get("message") or "",
            columns=read_columns(metadata.get("columns") or []),
            rows=tuple(tuple(row) for row in body.get("data") or []),
            partitions=max(1, len(metadata.get("partitionInfo") or [])),
            context=_context(metadata.get("context") or {}, sent),
            stream=StreamOffer(offered["uri"], offered["token"]) if offered else None,
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise ConnectionFailedError("the response is not from a Headrace server") from error


def read_problems(body: Any) -> list[Diagnostic]:
    """Return the errors of a checked text; raises ConnectionFailedError for a malformed answer."""
    try:
        return [
            Diagnostic(
                sqlstate=item["sqlState"],
                message=item["message"],
                hint=item.get("hint"),
                span=Span(**item["position"]) if "position" in item else None,
                expected=item.get("expected"),
                received=item.get("found"),
                severity=item["severity"],
            )
            for item in body["diagnostics"]
        ]
    except (AttributeError, KeyError, TypeError) as error:
        raise ConnectionFailedError("the response is not from a Headrace server") from error


def read_plan(body: Any) -> Plan:
    """Return the steps to a desired state; raises ConnectionFailedError for a malformed answer."""
    try:
        steps = tuple(
            PlanStep(
                action=item["action"],
                kind=item["kind"],
                name=item["name"],
                notes=tuple(item["notes"]),
                context=_context(item["context"], SessionContext("")),
                statement=item.get("statement"),
            )
            for item in body["steps"]
        )
        return Plan(steps, tuple(read_problems(body)))
    except (AttributeError, KeyError, TypeError) as error:
        raise ConnectionFailedError("the response is not from a Headrace server") from error


def read_completion(body: Any) -> Completion:
    """Return the candidates of a completion; raises ConnectionFailedError for a malformed answer."""
    try:
        names = ("label", "kind", "insert", "detail", "documentation")
        candidates = tuple(Candidate(**{name: item[name] for name in names}) for item in body["candidates"])
        return Completion(body["start"], body["end"], candidates)
    except (KeyError, TypeError) as error:
        raise ConnectionFailedError("the response is not from a Headrace server") from error


def read_words(body: Any) -> tuple[str, ...]:
    """Return the keywords of the language; raises ConnectionFailedError for a malformed answer."""
    try:
        return tuple(body["words"])
    except (KeyError, TypeError) as error:
        raise ConnectionFailedError("the response is not from a Headrace server") from error


def read_device_code(body: Any) -> DeviceCode:
    """Return a started sign-in; raises ConnectionFailedError for a malformed answer."""
    try:
        return DeviceCode(
            address=str(body["verificationUri"]),
            code=str(body["userCode"]),
            direct=body.get("verificationUriComplete"),
            interval_s=read_interval(body),
            secret=str(body["device"]),
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise ConnectionFailedError("the response is not from a Headrace server") from error


def read_interval(body: Any) -> float:
    """Return the seconds until the next poll of a sign-in; raises ConnectionFailedError for a malformed answer."""
    try:
        return float(body["interval"])
    except (KeyError, TypeError, ValueError) as error:
        raise ConnectionFailedError("the response is not from a Headrace server") from error


def read_start(frame: Any) -> StreamStart:
    """Return a stream's first frame."""
    headers = frame.get("headers") or {}
    if headers.get("relationType") != "CHANGELOG":
        return StreamStart(None)
    return StreamStart(tuple(json.loads(headers["primaryKey"])))


def read_columns(columns: Any) -> tuple[AnswerColumn, ...]:
    """Return the columns of an answer or of a stream's first frame."""
    return tuple(
        AnswerColumn(column["name"], column["type"], bool(column.get("nullable", True))) for column in columns
    )


def _context(names: dict[str, str], sent: SessionContext) -> SessionContext:
    return SessionContext(
        organization_id=names.get("organizationID", sent.organization_id),
        role=names.get("roleName"),
        database=names.get("databaseName"),
        schema=names.get("schemaName"),
        store=names.get("storeName"),
        compute_pool=names.get("computePoolName"),
        timezone=sent.timezone,
    )
