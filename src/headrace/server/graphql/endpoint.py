"""The endpoint `/graphql`: operations by POST, subscriptions by graphql-transport-ws."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import Any

import structlog
from fastapi import Request
from pydantic import BaseModel, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket
from strawberry.asgi import GraphQL
from strawberry.exceptions import ConnectionRejectionError
from strawberry.schema.exceptions import CannotGetOperationTypeError, InvalidOperationTypeError
from strawberry.subscriptions import GRAPHQL_TRANSPORT_WS_PROTOCOL
from strawberry.subscriptions.protocols.graphql_transport_ws.handlers import BaseGraphQLTransportWSHandler
from strawberry.types.graphql import OperationType

from headrace.catalog.objects import Principal
from headrace.core.context import SessionContext
from headrace.core.errors import InternalError
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.server.auditing import GRAPHQL_PATHS, Audit, refused_request, refused_stream
from headrace.server.auth import principal_of
from headrace.server.dataplane.tickets import TicketOffice
from headrace.server.graphql.errors import refused
from headrace.server.graphql.reading import Reads
from headrace.server.graphql.schema import OperationSchema, schema_of
from headrace.server.hosts import address_of
from headrace.server.metrics import Metrics
from headrace.server.ports import CatalogReader
from headrace.server.rest.runs import StatementRuns
from headrace.server.turns import Turns
from headrace.session.auditing import audited

log = structlog.get_logger()

NAMES = {
    "role": "role",
    "database": "database",
    "schema": "schema",
    "store": "store",
    "computePool": "compute_pool",
}
"""Parameters of the address: the names that operations run in."""
NAME_LENGTH_MAX = 1024
OPERATIONS_MAX = 32
"""Operations of one websocket at a time."""
INITIALISED_S = 10.0
ID_LENGTH_MAX = 100


@dataclass(frozen=True)
class Door:
    """Services of the endpoint. `authenticate` returns the principal of a token, `signed_in` that of a websocket's cookie."""

    settings: Settings
    reader: CatalogReader
    runs: StatementRuns
    tickets: TicketOffice
    turns: Turns
    metrics: Metrics
    ended: Callable[[Principal], str | None]
    audit: Audit
    authenticate: Callable[[str], Principal | None]
    signed_in: Callable[[Scope], Principal | None]


class Operation:
    """Context of one operation: services, the caller, and its reads."""

    def __init__(self, door: Door, principal: Principal, session: SessionContext) -> None:
        self._door = door
        self.principal = principal
        self.session = session
        self.settings = door.settings
        self.reader = door.reader
        self.runs = door.runs
        self.tickets = door.tickets
        self.metrics = door.metrics
        self.reads = Reads(door.reader, door.turns, door.metrics, principal, session)

    def refuse_ended(self, lost: Callable[[], str | None]) -> None:
        """Raise RefusedError 42501 if the credentials have ended, or if `lost` names a privilege."""
        reason = self._door.ended(self.principal) or lost()
        if reason is not None:
            log.info("subscription_revoked", user=self.principal.user, reason=reason)
            self._door.audit(
                replace(refused_stream(self.principal.address, reason, self.principal), door="graphql")
            )
            raise refused(SqlState.INSUFFICIENT_PRIVILEGE, f"the subscription was ended: {reason}")

    def audit_unparsed(self, statement: str, names: SessionContext, state: SqlState, began: float) -> None:
        """Record a statement that its arguments do not form, as a text that cannot be parsed is recorded."""
        role = names.role or self.principal.default_role
        self._door.audit(audited(statement, self.principal, role, state, began=began))


class Caller:
    """Context of a connection: one request, or a websocket, whose principal is known after its first message."""

    def __init__(self, door: Door, scope: Scope, session: SessionContext) -> None:
        self.door = door
        self.scope = scope
        self.session = session
        self.principal: Principal | None = None
        self.connection_params: dict[str, object] | None = None

    def operation(self) -> Operation:
        """Return the context of another operation."""
        if self.principal is None:
            raise InternalError("expected an authenticated connection")
        return Operation(self.door, self.principal, self.session)


class Submission(BaseModel):
    """An operation as a client sends it."""

    query: str = Field(min_length=1, repr=False)
    variables: dict[str, Any] | None = Field(None, repr=False)
    operation_name: str | None = Field(None, alias="operationName", max_length=NAME_LENGTH_MAX)


class Socket(BaseGraphQLTransportWSHandler[Any, None]):
    """The protocol, with messages checked before strawberry reads them: a reason to close is 123 bytes at most."""

    async def handle_message(self, message: Any) -> None:
        """Handle a message, or close the socket."""
        if not _is_well_formed(message):
            await self.handle_invalid_message("the message cannot be read")
            return
        await super().handle_message(message)

    @staticmethod
    def _get_pre_execution_close_reason(_error: object) -> str | None:
        """Return None: the errors of a document are sent as its result."""
        return None


class View(GraphQL[Any, None]):
    """Websockets of strawberry behind our authentication."""

    graphql_transport_ws_handler_class = Socket

    def __init__(self, schema: OperationSchema, door: Door) -> None:
        super().__init__(
            schema,
            graphql_ide=None,
            allow_queries_via_get=False,
            subscription_protocols=(GRAPHQL_TRANSPORT_WS_PROTOCOL,),
            connection_init_wait_timeout=timedelta(seconds=INITIALISED_S),
            max_subscriptions_per_connection=OPERATIONS_MAX,
        )
        self._door = door

    def is_websocket_origin_allowed(self, request: WebSocket, origin: str) -> bool:  # noqa: ARG002
        """Return True: `HostGate` has refused foreign pages already."""
        return True

    async def get_context(self, request: Any, response: Any) -> Caller:  # noqa: ARG002
        """Return the context of a websocket."""
        return Caller(self._door, request.scope, _names(request))

    async def on_ws_connect(self, context: Caller) -> None:
        """Authenticate a websocket by its first message, its header or its cookie. Raises ConnectionRejectionError, which closes it."""
        door, scope = self._door, context.scope
        token = _token(context.connection_params or {}) or _bearer(scope)
        principal = door.authenticate(token) if token else door.signed_in(scope)
        if principal is None:
            reason = "not valid" if token else "no bearer token"
            log.warning("authentication_failed", client=address_of(scope), path=scope["path"], reason=reason)
            door.metrics.refused()
            door.audit(refused_request(scope, None, reason))
            raise ConnectionRejectionError
        context.principal = replace(principal, address=address_of(scope), door="graphql")
        # The connection belongs to its user from now on (`server.connections`).
        scope.setdefault("state", {})["principal"] = context.principal


class GraphQLEndpoint:
    """GraphQL for the callers of one server."""

    def __init__(self, door: Door) -> None:
        self._door = door

    @cached_property
    def _schema(self) -> OperationSchema:
        """The schema. It takes a second of a processor, which the first caller waits for and not each start of a server."""
        return schema_of(self._door.settings)

    @cached_property
    def _view(self) -> View:
        return View(self._schema, self._door)

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [
            route
            for path in GRAPHQL_PATHS
            for route in (
                Route(path, endpoint=self._post, methods=["POST"]),
                WebSocketRoute(path, endpoint=self),
            )
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a websocket."""
        view = await asyncio.to_thread(lambda: self._view)
        await view(scope, receive, send)

    async def _post(self, request: Request) -> Response:
        submission = await _submission(request)
        caller = Caller(self._door, request.scope, _names(request))
        caller.principal = replace(principal_of(request), door="graphql")
        try:
            schema = await asyncio.to_thread(lambda: self._schema)
            result = await schema.execute(
                submission.query,
                variable_values=submission.variables,
                context_value=caller,
                operation_name=submission.operation_name,
                allowed_operation_types=(OperationType.QUERY, OperationType.MUTATION),
            )
        except CannotGetOperationTypeError:
            raise HTTPException(
                400, "operationName must name one of the operations of the document"
            ) from None
        except InvalidOperationTypeError:
            raise HTTPException(400, "subscriptions require a websocket (graphql-transport-ws)") from None
        body: dict[str, object] = {"data": result.data}
        if result.errors:
            body["errors"] = [error.formatted for error in result.errors]
        # ASCII only: a lone surrogate in the data cannot be encoded as UTF-8.
        text = json.dumps(body, ensure_ascii=True, separators=(",", ":"))
        return Response(text, media_type="application/json")


async def _submission(request: Request) -> Submission:
    """Return the operation of a request. Raises HTTPException 400 if it cannot be read."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise HTTPException(400, f"expected application/json, found {content_type or 'no content type'}")
    try:
        return Submission.model_validate_json(await request.body())
    except ValidationError as error:
        # The input is left out of the text: it may hold secrets.
        problems = "; ".join(
            f"{'.'.join(str(part) for part in item['loc']) or 'request'}: {item['msg']}"
            for item in error.errors(include_input=False, include_url=False, include_context=False)
        )
        raise HTTPException(400, f"the request cannot be read: {problems}") from None


def _names(request: Any) -> SessionContext:
    """Return the names in the parameters of an address."""
    names: dict[str, Any] = {
        field: request.query_params.get(name, "")[:NAME_LENGTH_MAX] or None for name, field in NAMES.items()
    }
    return SessionContext("", **names)


def _is_well_formed(message: object) -> bool:
    if not isinstance(message, dict):
        return False
    payload = message.get("payload")
    match message.get("type"):
        case "connection_init" | "ping" | "pong":
            return payload is None or isinstance(payload, dict)
        case "complete":
            return _is_id(message.get("id"))
        case "subscribe":
            return (
                _is_id(message.get("id"))
                and isinstance(payload, dict)
                and isinstance(payload.get("query"), str)
                and isinstance(payload.get("variables"), dict | None)
                and isinstance(payload.get("operationName"), str | None)
            )
    return False


def _is_id(identifier: object) -> bool:
    return isinstance(identifier, str) and 0 < len(identifier) <= ID_LENGTH_MAX


def _token(params: dict[str, object]) -> str | None:
    """Return the token in the first message of a websocket: `{"Authorization": "Bearer …"}`."""
    for name, value in params.items():
        if name.lower() == "authorization" and isinstance(value, str):
            scheme, _, token = value.partition(" ")
            return token.strip() or None if scheme.lower() == "bearer" else None
    return None


def _bearer(scope: Scope) -> str | None:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    return _token({"authorization": headers.get("authorization", "")})
