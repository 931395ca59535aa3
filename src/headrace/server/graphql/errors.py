"""Errors of GraphQL: the parts that REST sends as `extensions`, and never a trace or a text of our own defects."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import structlog
from graphql import GraphQLError
from strawberry.exceptions import MissingQueryError
from strawberry.schema.exceptions import CannotGetOperationTypeError, InvalidOperationTypeError

from headrace.core.errors import Diagnostic, ErrorDomain, HeadraceError
from headrace.core.sqlstate import SqlState
from headrace.server.rest.answers import error_parts

log = structlog.get_logger()

_OF_DOCUMENTS = (CannotGetOperationTypeError, InvalidOperationTypeError, MissingQueryError)
"""Errors of strawberry about a document, which are a client's mistakes."""


class RefusedError(Exception):
    """An operation that failed, with the error for the caller."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


def refused(state: SqlState, message: str, hint: str | None = None) -> RefusedError:
    """Return the error of an operation."""
    return RefusedError(Diagnostic(state.value, message, hint))


def too_busy() -> RefusedError:
    """Return the error of an operation that did not get its turn."""
    return refused(
        SqlState.CONFIGURATION_LIMIT_EXCEEDED, "too many statements are running", "Try again soon."
    )


def too_deep() -> RefusedError:
    """Return the error of a document that is nested too deeply to be read at all."""
    return refused(SqlState.CONFIGURATION_LIMIT_EXCEEDED, "the document is nested too deeply")


def shown(errors: Sequence[GraphQLError] | None) -> list[GraphQLError] | None:
    """Return the errors of a result as clients see them; None without errors."""
    return [_shown(error) for error in errors] if errors else None


def _shown(error: GraphQLError) -> GraphQLError:
    cause: BaseException | None = error
    while isinstance(cause, GraphQLError):
        cause = cause.original_error
    if cause is None or isinstance(cause, _OF_DOCUMENTS):
        # The document or its variables are wrong: the library's own texts contain the position.
        return _with(error, Diagnostic(SqlState.SYNTAX_ERROR.value, error.message))
    if isinstance(cause, RecursionError):
        cause = too_deep()
    if isinstance(cause, RefusedError):
        return _with(error, cause.diagnostic)
    if isinstance(cause, HeadraceError) and cause.domain is not ErrorDomain.INTERNAL:
        return _with(error, cause.diagnostic())
    identifier = str(uuid.uuid4())
    log.error("graphql_broke", error_id=identifier, exc_info=cause)
    message = f"internal server error; the server's log contains the details under {identifier}"
    return _with(error, Diagnostic(SqlState.INTERNAL_ERROR.value, message))


def _with(error: GraphQLError, diagnostic: Diagnostic) -> GraphQLError:
    parts = error_parts(diagnostic)
    message = str(parts.pop("message"))
    return GraphQLError(
        message,
        nodes=error.nodes,
        source=error.source,
        positions=error.positions,
        path=error.path,
        extensions={**(error.extensions or {}), **parts},
    )
