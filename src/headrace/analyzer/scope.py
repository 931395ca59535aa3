"""Scope of an expression: the columns that it may name, and the meaning of names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headrace.analyzer.expressions import ColumnReference, Expression, FieldAccess
from headrace.analyzer.functions.resolver import Overloads, no_overloads
from headrace.analyzer.logical import SourceColumns
from headrace.core.errors import InternalError, Span, UserError
from headrace.core.idioms import Place, remedy
from headrace.core.internal_columns import PREFIX
from headrace.core.names import printed
from headrace.core.sqlstate import SqlState
from headrace.core.suggestions import name_suggestion
from headrace.core.types import Struct

UNNAMED = f"{PREFIX}query_"
"""How the alias of a subquery without a name begins; a number follows."""


@dataclass(frozen=True)
class Scope:
    """The sources of one FROM, in order, and the columns that USING has made one.

    `outer` are the sources of the SELECT that a subquery of WHERE stands in: they are looked at last.
    `aliases` are those of the SELECT list, which are no columns yet: an error explains that.
    `overloads` returns the users' functions of a name.
    `database` is that of the session; None where an expression cannot depend on it.
    """

    sources: tuple[SourceColumns, ...]
    shared: Mapping[str, Expression] = field(default_factory=dict)
    outer: tuple[SourceColumns, ...] = ()
    aliases: frozenset[str] = frozenset()
    overloads: Overloads = no_overloads
    database: str | None = None

    def source(self, alias: str, *, span: Span | None, after: str = "") -> SourceColumns:
        """Return the source called `alias`; raises UserError 3D020. `after` is what follows the alias at `span`."""
        match = next((source for source in self.sources if source.alias == alias), None)
        if match is None:
            known = [source.alias for source in self.sources if not source.alias.startswith(UNNAMED)]
            raise UserError(
                SqlState.RELATION_NOT_FOUND,
                f"no source in FROM is named {printed(alias)}",
                hint=name_suggestion(
                    alias,
                    known,
                    after=after,
                    otherwise=f"FROM has {', '.join(map(printed, known)) or 'no source'}.",
                ),
                span=span,
            )
        return match

    def __contains__(self, name: str) -> bool:
        """True when a source has a column called `name`."""
        return any(source.schema.column(name) is not None for source in self.sources)

    def only_source(self, function: str, *, span: Span | None) -> SourceColumns:
        """Return the source that a row metadata function without argument means; raises UserError 42702 if there are several."""
        relations = [source for source in self.sources if source.hidden]
        if len(relations) != 1:
            example = relations[0].alias if relations else "relation"
            raise UserError(
                SqlState.AMBIGUOUS_COLUMN,
                f"{function}() requires the name of a relation in FROM here",
                hint=f"Write {function}({printed(example)}).",
                span=span,
            )
        return relations[0]

    def column(self, name: str, *, alias: str | None, span: Span | None) -> Expression:
        """Return the column `name`, of the source `alias` if given.

        Raises UserError 42703 (no such column; suggests the nearest), 42702 (in several sources) or 3D020 (no such source).
        """
        if alias is not None:
            return self._qualified(name, alias, span)
        if name in self.shared:
            return replace(self.shared[name], span=span)
        matches = [source for source in self.sources if source.schema.column(name) is not None]
        if not matches and name in Scope(self.outer):
            return Scope(self.outer).column(name, alias=None, span=span)
        if not matches:
            known = [column.name for source in self.sources for column in source.schema.columns]
            raise self._undefined(name, known, span)
        if len(matches) > 1:
            raise UserError(
                SqlState.AMBIGUOUS_COLUMN,
                f"the column {printed(name)} is ambiguous: it is in {' and in '.join(map(_called, matches))}",
                hint="Name the subqueries with AS, and write name.column."
                if matches[0].alias.startswith(UNNAMED)
                else f"Write {printed(matches[0].alias)}.{printed(name)}.",
                span=span,
            )
        return _reference(matches[0], name, span)

    def _qualified(self, name: str, alias: str, span: Span | None) -> Expression:
        if not any(source.alias == alias for source in self.sources):
            if any(source.alias == alias for source in self.outer):
                return Scope(self.outer).column(name, alias=alias, span=span)
            field = self._field(alias, name, span)
            if field is not None:
                return field
        source = self.source(alias, span=span, after=f".{printed(name)}")
        if source.schema.column(name) is None:
            raise self._undefined(name, list(source.schema.names), span, alias)
        return _reference(source, name, span)

    def _field(self, column: str, field: str, span: Span | None) -> Expression | None:
        """Return `column.field` of a STRUCT column: the dialect writes `->`, its users often a dot."""
        matches = [source for source in self.sources if source.schema.column(column) is not None]
        if len(matches) != 1:
            return None
        operand = _reference(matches[0], column, span)
        kind = operand.type.field(field) if isinstance(operand.type, Struct) else None
        return None if kind is None else FieldAccess(operand=operand, name=field, type=kind, span=span)

    def _undefined(
        self, name: str, known: list[str], span: Span | None, qualifier: str | None = None
    ) -> UserError:
        where, before = (
            (f" in {printed(qualifier)}", f"{printed(qualifier)}.") if qualifier is not None else ("", "")
        )
        shown = ", ".join(printed(item) for item in known[:20])
        alias = remedy(Place.NAME, "ALIAS") if name in self.aliases else None
        if name.startswith("row") and qualifier is None:
            alias = alias or remedy(Place.NAME, name)
        return UserError(
            SqlState.UNDEFINED_COLUMN,
            f"the column {printed(name)} does not exist{where}",
            hint=alias
            or name_suggestion(
                name, known, before=before, otherwise=f"The columns are {shown}." if shown else None
            ),
            span=span,
        )


def _called(source: SourceColumns) -> str:
    return "a subquery without a name" if source.alias.startswith(UNNAMED) else printed(source.alias)


def _reference(source: SourceColumns, name: str, span: Span | None) -> ColumnReference:
    column = source.schema.column(name)
    if column is None:
        raise InternalError(f"{source.alias} lost its column {name}")
    return ColumnReference(
        source=source.alias, column=name, type=column.type, nullable=column.nullable, span=span
    )
