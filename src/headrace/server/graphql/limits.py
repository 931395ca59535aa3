"""Limits of a document: levels, aliases, and cost, the number of fields that it requests with those of each row counted.

Each fragment is looked at once, whatever the number of its uses: a document of fragments that double each other is small, but what it
requests is not. The limiters of strawberry follow each use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    GraphQLSchema,
    InlineFragmentNode,
    IntValueNode,
    OperationDefinitionNode,
    SelectionSetNode,
    VariableNode,
)
from strawberry.extensions import SchemaExtension

from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.server.graphql.errors import RefusedError, refused, too_deep

PAGE_ROWS = 50
"""Rows of a page without `first`."""
TOKENS_MAX = 4000
_INTROSPECTION = ("__schema", "__type")


@dataclass(frozen=True)
class _Size:
    """Size of a selection: its levels, its aliases, and its fields."""

    depth: int = 0
    aliases: int = 0
    cost: int = 0

    def beside(self, other: _Size) -> _Size:
        return _Size(max(self.depth, other.depth), self.aliases + other.aliases, self.cost + other.cost)


class _Sizes:
    """Sizes of the selections of a document."""

    def __init__(
        self, document: DocumentNode, variables: Mapping[str, Any], connections: frozenset[str]
    ) -> None:
        self._fragments = {
            node.name.value: node for node in document.definitions if isinstance(node, FragmentDefinitionNode)
        }
        self._variables = variables
        self._connections = connections
        self._known: dict[str, _Size] = {}

    def of(self, selections: SelectionSetNode | None) -> _Size:
        """Return the size of a set of selections."""
        size = _Size()
        for node in selections.selections if selections is not None else ():
            if isinstance(node, FieldNode):
                size = size.beside(self._of_field(node))
            elif isinstance(node, InlineFragmentNode):
                size = size.beside(self.of(node.selection_set))
            elif isinstance(node, FragmentSpreadNode):
                size = size.beside(self._of_fragment(node.name.value))
        return size

    def _of_field(self, node: FieldNode) -> _Size:
        if node.name.value in _INTROSPECTION:
            # Its depth is the specification's; its size is bounded by the schema and by the number of tokens.
            return _Size(cost=1)
        below = self.of(node.selection_set)
        rows = self._rows(node)
        return _Size(below.depth + 1, below.aliases + (node.alias is not None), 1 + rows * below.cost)

    def _of_fragment(self, name: str) -> _Size:
        if name not in self._known:
            # A fragment that contains itself is refused by the validation that follows.
            self._known[name] = _Size()
            fragment = self._fragments.get(name)
            self._known[name] = self.of(fragment.selection_set) if fragment is not None else _Size()
        return self._known[name]

    def _rows(self, node: FieldNode) -> int:
        """Return the number of rows that a field requests: 1 if it is no page."""
        for argument in node.arguments or ():
            if argument.name.value == "first":
                value: Any = argument.value
                if isinstance(value, VariableNode):
                    count = self._variables.get(value.name.value, PAGE_ROWS)
                else:
                    count = int(value.value) if isinstance(value, IntValueNode) else PAGE_ROWS
                return max(count, 1) if isinstance(count, int) else PAGE_ROWS
        return PAGE_ROWS if node.name.value in self._connections else 1


def _pages(schema: GraphQLSchema) -> Iterator[str]:
    """Yield the names of the fields that are pages of rows."""
    for kind in schema.type_map.values():
        for name, field in getattr(kind, "fields", {}).items():
            if "first" in getattr(field, "args", {}):
                yield name


def refusal_of(
    document: DocumentNode, variables: Mapping[str, Any], connections: frozenset[str], settings: Settings
) -> RefusedError | None:
    """Return the error of a document that is larger than the settings allow, None for any other."""
    sizes, size = _Sizes(document, variables, connections), _Size()
    for node in document.definitions:
        if isinstance(node, OperationDefinitionNode):
            defaults = {
                definition.variable.name.value: int(definition.default_value.value)
                for definition in node.variable_definitions or ()
                if isinstance(definition.default_value, IntValueNode)
            }
            sizes = _Sizes(document, {**defaults, **variables}, connections)
            size = size.beside(sizes.of(node.selection_set))
    for what, value, most, setting in (
        ("levels", size.depth, settings.graphql_depth_max, "DEPTH"),
        ("aliases", size.aliases, settings.graphql_aliases_max, "ALIASES"),
        ("fields, those of each requested row counted", size.cost, settings.graphql_cost_max, "COST"),
    ):
        if value > most:
            return refused(
                SqlState.CONFIGURATION_LIMIT_EXCEEDED,
                f"expected a document of at most {most} {what}, found {value}",
                f"Request fewer, or smaller pages with `first` (setting HEADRACE_GRAPHQL_{setting}_MAX).",
            )
    return None


def limiter(settings: Settings) -> type[SchemaExtension]:
    """Return the extension that refuses documents beyond the limits before they are validated."""
    connections: frozenset[str] | None = None

    class DocumentLimits(SchemaExtension):
        """Limits of tokens, levels, aliases and cost."""

        def on_operation(self) -> Iterator[None]:
            self.execution_context.parse_options["max_tokens"] = TOKENS_MAX
            yield

        def on_validate(self) -> Iterator[None]:
            nonlocal connections
            context = self.execution_context
            if connections is None:
                connections = frozenset(_pages(context.schema._schema))
            if context.graphql_document is not None:
                try:
                    error = refusal_of(
                        context.graphql_document, context.variables or {}, connections, settings
                    )
                except RecursionError:
                    error = too_deep()
                if error is not None:
                    context.pre_execution_errors = [GraphQLError(str(error), original_error=error)]
            yield

    return DocumentLimits
