"""The schema: queries of all system relations, statements and subscriptions; `sdl` is the text in the documentation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cache
from typing import Any

import strawberry
from graphql import GraphQLError
from strawberry.extensions import DisableIntrospection
from strawberry.schema.config import StrawberryConfig
from strawberry.types.execution import ExecutionContext, PreExecutionError

from headrace.core.settings import Settings
from headrace.server.graphql import mutations, subscriptions
from headrace.server.graphql.errors import RefusedError, shown
from headrace.server.graphql.limits import limiter
from headrace.server.graphql.objects import BIG_INT, SYSTEM_RELATIONS, BigInt, ObjectTypes, value_of
from headrace.server.graphql.statements import execute, statement


class OperationSchema(strawberry.Schema):
    """A schema whose operations each have reads of their own, and whose errors are the product's."""

    async def execute(self, query: Any, *arguments: Any, **named: Any) -> Any:
        """Execute an operation for the connection in `context_value`."""
        named["context_value"] = named["context_value"].operation()
        result = await super().execute(query, *arguments, **named)
        result.errors = shown(result.errors)
        return result

    async def stream(self, query: Any, *arguments: Any, **named: Any) -> Any:
        """Return the results of an operation for the connection in `context_value`."""
        operation = named["context_value"] = named["context_value"].operation()
        try:
            # The socket was authenticated when it was opened.
            operation.refuse_ended(lambda: None)
        except RefusedError as error:
            return _only(PreExecutionError(data=None, errors=shown([GraphQLError("", original_error=error)])))
        return _with_own_errors(await super().stream(query, *arguments, **named))

    def process_errors(self, errors: list[Any], execution_context: ExecutionContext | None = None) -> None:
        """Log nothing: users' mistakes are in the statement log, and our defects are logged where they are shown."""


async def _only(result: PreExecutionError) -> AsyncIterator[Any]:
    yield result


async def _with_own_errors(source: Any) -> AsyncIterator[Any]:
    try:
        async for result in source:
            result.errors = shown(result.errors)
            yield result
    finally:
        await source.aclose()


def schema_of(settings: Settings) -> OperationSchema:
    """Return the schema with the limits of the settings."""
    extensions: list[Any] = [limiter(settings)]
    if not settings.graphql_introspection:
        extensions.append(DisableIntrospection)
    query, subscription = _roots()
    return OperationSchema(
        query=query,
        mutation=_mutation(),
        subscription=subscription,
        extensions=extensions,
        config=StrawberryConfig(default_resolver=value_of, scalar_map={BigInt: BIG_INT}),
    )


def sdl(settings: Settings) -> str:
    """Return the schema in GraphQL's own language."""
    return f"{schema_of(settings).as_str()}\n"


@cache
def _roots() -> tuple[type, type]:
    types = ObjectTypes()
    fields: dict[str, Any] = {name: types.root_field(each) for name, each in SYSTEM_RELATIONS.items()}
    fields["statement"] = strawberry.field(resolver=statement, description=statement.__doc__)
    query = strawberry.type(type("Query", (), fields), description="The objects that the role may see.")
    pushed: dict[str, Any] = {
        each.name: subscriptions.watch_field(types, each) for each in subscriptions.watched_relations()
    }
    for resolver in (subscriptions.rows, subscriptions.changes):
        pushed[resolver.__name__] = strawberry.subscription(resolver=resolver, description=resolver.__doc__)
    subscription = strawberry.type(
        type("Subscription", (), pushed),
        description="What is sent when it happens, over graphql-transport-ws.",
    )
    return query, subscription


@cache
def _mutation() -> type:
    fields = {"execute": strawberry.mutation(resolver=execute, description=execute.__doc__)}
    fields |= {mutations.name_of(kind): mutations.mutation_of(kind) for kind in mutations.statements()}
    return strawberry.type(
        type("Mutation", (), fields), description="Statements, which are the only way to change anything."
    )
