"""Completion by position: what can be typed at a place of a text, from the grammar, the catalog as the role sees it, and the declarations
of functions and properties."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

from sqlglot.tokenizer_core import Token, TokenType

from headrace.analyzer import BindingContext, bind
from headrace.analyzer.functions import CATALOGUE
from headrace.catalog.access import Privilege
from headrace.catalog.kinds import KINDS
from headrace.catalog.kinds.namespace import DATABASE, SCHEMA
from headrace.catalog.kinds.relation import RELATION
from headrace.catalog.objects import Relation, RelationKind
from headrace.connectors.registry import STORE_TYPES, connector
from headrace.core.errors import HeadraceError, UserError
from headrace.core.names import SYSTEM_DATABASE, SYSTEM_SCHEMA, RelationName, printed
from headrace.core.properties import PropertySpec, Scope, Specs
from headrace.core.schema import Column
from headrace.core.types import TYPE_NAMES
from headrace.sql import calls, lexer
from headrace.sql.ast import Select
from headrace.sql.expectations import Expectations, Slot
from headrace.sql.grammar import expectations
from headrace.sql.position import Position, position_of
from headrace.sql.query_sources import sources_at
from headrace.statements.accepted_properties import OF_SOURCES, accepted, scope_of
from headrace.statements.base import Execution
from headrace.statements.language import built_in_functions
from headrace.statements.system.relation import SystemLookup

CANDIDATES_MAX = 500
_QUERY = "query"
_NAMED = re.compile(
    "|".join(
        sorted(
            [spec.word for spec in KINDS] + ["stream", "changelog", "table", "view", _QUERY],
            key=len,
            reverse=True,
        )
    )
)
_FREE = frozenset({Slot.EXPRESSION, Slot.PROPERTY, Slot.VALUE})
"""Slots that are usually filled with something other than a candidate."""
_OF_RELATIONS = {
    "STREAM": RelationKind.STREAM,
    "CHANGELOG": RelationKind.CHANGELOG,
    "TABLE": RelationKind.TABLE,
    "MATERIALIZED": RelationKind.MATERIALIZED_VIEW,
    "VIEW": RelationKind.VIEW,
}


@dataclass(frozen=True)
class Candidate:
    """A text that can stand at the position: `label` is what a list of candidates shows, `insert` the text itself.

    `detail` is a short addition such as a type or a signature, `documentation` one or more sentences.
    """

    label: str
    kind: str
    insert: str
    detail: str = ""
    documentation: str = ""


@dataclass(frozen=True)
class Completion:
    """Candidates for the text from `start` to `end`, offsets in code points, most specific first.

    `opens` is true if an editor should show them before a letter is typed: the statement must continue with one of them.
    """

    start: int
    end: int
    candidates: tuple[Candidate, ...] = ()
    opens: bool = False


def complete(text: str, offset: int, run: Execution) -> Completion:
    """Return the candidates at `offset` of `text`. Reads the catalog only; a text that cannot be read up to there has none."""
    offset = max(0, min(offset, len(text)))
    position = position_of(text, offset)
    if position is None:
        return Completion(offset, offset)
    try:
        expected = expectations(position.before)
        place = _Place(position, expected, run)
        candidates = tuple(islice(_distinct(filter(place.fits, place.candidates())), CANDIDATES_MAX))
    except UserError:
        return Completion(position.start, position.end)
    return Completion(position.start, position.end, candidates, place.opens and bool(candidates))


def _distinct(candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    """Yield each candidate once, as soon as it comes: of ten thousand relations only those are read that are shown."""
    seen = set()
    for candidate in candidates:
        if candidate not in seen:
            seen.add(candidate)
            yield candidate


@dataclass(frozen=True)
class _Place:
    """A position of a text, with what the grammar expects there."""

    position: Position
    expected: Expectations
    run: Execution = field(repr=False)

    def fits(self, candidate: Candidate) -> bool:
        """True if the candidate begins as the name does that is being typed."""
        return self._begins(candidate.label)

    def _begins(self, name: str) -> bool:
        return name.lower().startswith(self.position.typed.lower())

    @cached_property
    def source(self) -> lexer.Source:
        """The statement without the name that is being typed; only its start if the rest cannot be split into tokens."""
        whole = lexer.Source(f"{self.position.before} {self.position.after}")
        try:
            lexer.tokens(whole)
        except UserError:
            return lexer.Source(self.position.before)
        return whole

    @cached_property
    def tokens(self) -> list[Token]:
        """The tokens of `source`."""
        return lexer.tokens(self.source)

    @cached_property
    def before(self) -> list[Token]:
        """The tokens before the position."""
        return [token for token in self.tokens if token.start < len(self.position.before)]

    @cached_property
    def words(self) -> list[str]:
        """The leading words of the statement."""
        words = []
        for token in self.before[:6]:
            if not lexer.is_word(token):
                break
            words.append(lexer.folded(token))
        return words

    def candidates(self) -> Iterator[Candidate]:
        """Yield the candidates of each slot, then the keywords."""
        slots, quote = self.expected.slots, self.position.quote
        if Slot.PROPERTY in slots and quote in ("", "'"):
            yield from self._properties()
        if Slot.VALUE in slots and quote in ("", "'"):
            yield from self._values()
        if quote == "'":
            return
        for what in slots.get(Slot.NAME, ()):
            yield from self._names(what)
        if Slot.RELATION in slots:
            yield from self._relations([*_OF_RELATIONS.values(), RelationKind.SYSTEM])
        if Slot.EXPRESSION in slots:
            yield from self._columns()
        if quote or self.position.qualifier:
            return
        if Slot.TYPE in slots:
            yield from (Candidate(name, "type", name) for name in TYPE_NAMES)
        yield from (Candidate(word, "keyword", word) for word in self.expected.words)
        if Slot.EXPRESSION in slots:
            yield from _functions(self.run)

    @property
    def opens(self) -> bool:
        """True if the statement must continue with a word or the name of an object that exists, of which nothing is typed."""
        position, slots = self.position, self.expected.slots
        is_typed = bool(position.typed or position.quote or position.qualifier)
        if is_typed or self.expected.is_whole or slots.keys() & _FREE:
            return False
        kinds = (_NAMED.search(what) for what in slots.get(Slot.NAME, ()))
        return bool(self.before) and not any(match and self._is_new(match[0]) for match in kinds)

    # -- names of objects

    def _names(self, what: str) -> Iterator[Candidate]:
        if "column" in what:
            yield from self._columns()
            return
        if what.startswith("a privilege"):
            yield from (Candidate(item.value, "privilege", item.value) for item in Privilege)
            return
        match = _NAMED.search(what)
        if match is None or self._is_new(match[0]):
            return
        if match[0] == _QUERY:
            yield from self._queries()
        elif match[0] == RELATION.word or match[0].upper() in _OF_RELATIONS:
            words = [lexer.folded(token) for token in self.before[-2:]]
            word = "MATERIALIZED" if words[:1] == ["MATERIALIZED"] else words[-1] if words else ""
            kind = _OF_RELATIONS.get(word)
            yield from self._relations([kind] if kind else list(_OF_RELATIONS.values()))
        else:
            yield from self._objects(match[0])

    def _is_new(self, kind: str) -> bool:
        """True if the statement creates the object whose name is typed."""
        words = [
            word for word in self.words if word not in ("OR", "REPLACE", "IF", "NOT", "EXISTS", "VIRTUAL")
        ]
        is_first = len(self.words) == len(self.before)
        return is_first and words[:1] == ["CREATE"] and words[-1:] == [kind.replace(" ", "_").upper()]

    def _objects(self, word: str) -> Iterator[Candidate]:
        spec = next(spec for spec in KINDS if spec.word == word)
        state, depth = self.run.catalog.snapshot(), len(self.position.qualifier)
        within = self.position.qualifier
        if spec is SCHEMA and not within:
            within = (self.run.context.database,) if self.run.context.database else ()
        elif depth >= (2 if spec.parent else 1):
            return
        for item in self.run.visible(state.all(spec, within)):
            name = spec.path(item)[-1]
            yield self._named(name, spec.word, detail=getattr(item, "description", None) or "")
        if spec.parent == DATABASE.kind and not depth:
            yield from self._objects(DATABASE.word)

    def _queries(self) -> Iterator[Candidate]:
        if self.position.qualifier:
            return
        for query in self.run.visible(self.run.catalog.unfinished_queries()):
            yield self._named(query.name or query.sink.name, _QUERY, detail=query.id)

    def _relations(self, kinds: Sequence[RelationKind]) -> Iterator[Candidate]:
        run, qualifier = self.run, self.position.qualifier
        database, schema = run.context.database, run.context.schema or "public"
        if len(qualifier) == 2:
            yield from self._relations_of(kinds, *qualifier)
        elif len(qualifier) == 1:
            (name,) = qualifier
            if database is not None:
                yield from self._relations_of(kinds, database, name)
            schemas = run.visible(run.catalog.schemas(name))
            yield from (self._named(item.name, "schema") for item in schemas)
            if name == SYSTEM_DATABASE:
                yield self._named(SYSTEM_SCHEMA, "schema")
        elif not qualifier:
            if database is not None:
                yield from self._relations_of(kinds, database, schema)
                others = [item.name for item in run.visible(run.catalog.schemas(database))]
                yield from (self._named(other, "schema") for other in others if other != schema)
            yield from self._objects(DATABASE.word)
            yield self._named(SYSTEM_DATABASE, "database", detail="system relations")

    def _relations_of(self, kinds: Sequence[RelationKind], database: str, schema: str) -> Iterator[Candidate]:
        run = self.run
        for relation in SystemLookup(run.catalog.snapshot(), None).relations(database, schema):
            name, kind = relation.name, relation.kind
            # The cheap conditions come first: privileges are looked up only of what would be shown.
            if (
                kind not in kinds
                or (name.database, name.schema) != (database, schema)
                or not self._begins(name.name)
            ):
                continue
            if kind is RelationKind.SYSTEM or run.policy.visible(run.role, relation):
                word = kind.value.replace("_", " ").lower()
                yield self._named(name.name, word, documentation=relation.description or "")

    def _named(self, name: str, kind: str, *, detail: str = "", documentation: str = "") -> Candidate:
        quote = self.position.quote
        insert = quote + name.replace(quote, quote * 2) + quote if quote else printed(name)
        return Candidate(name, kind, insert, detail, documentation)

    # -- columns and functions

    def _columns(self) -> Iterator[Candidate]:
        """Yield the columns of the sources around the position, and the aliases that qualify them."""
        qualifier = self.position.qualifier
        sources = sources_at(self.source, self.tokens, len(self.position.before))
        if qualifier:
            sources = [item for item in sources if qualifier[-1] in item.names]
        for item in sources:
            for column in self._columns_of(item.select):
                yield self._column(column, item.names[0] if item.names else "")
        if not qualifier:
            for name in dict.fromkeys(item.names[0] for item in sources if item.names):
                yield self._named(name, "source")

    def _column(self, column: Column, source: str) -> Candidate:
        detail = f"{column.type}{'' if column.nullable else ' NOT NULL'}"
        return self._named(
            column.name, "column", detail=detail, documentation=f"of {source}" if source else ""
        )

    def _columns_of(self, select: Select) -> Sequence[Column]:
        state = self.run.catalog.snapshot()
        context = BindingContext(
            catalog=SystemLookup(state, self.run.role),
            session=self.run.context,
            connectors=connector,
            inside_views=SystemLookup(state, None),
        )
        try:
            return bind(select, context).schema.columns
        except HeadraceError:
            # An incomplete subquery, or a relation that the role may not read.
            return ()

    def _relation_after(self, index: int) -> Relation | None:
        """Return the relation whose name follows the token at `index`, if the role knows it."""
        names: list[str] = []
        for token in self.before[index + 1 :]:
            if token.token_type is TokenType.DOT:
                continue
            if names and self.source.text[token.start - 1] != ".":
                break
            names.append(token.text if token.token_type is TokenType.IDENTIFIER else token.text.lower())
        context = self.run.context
        path = [context.database or "", context.schema or "public"][: 3 - len(names)] + names
        relation = self.run.catalog.relation(RelationName(*path)) if len(path) == 3 else None
        return relation if self.run.knows(relation) else None

    # -- properties

    @cached_property
    def _with(self) -> int:
        """The index of the WITH whose parentheses contain the position; the position is in one."""
        depth = 0
        for index in range(len(self.before) - 1, 0, -1):
            kind = self.before[index].token_type
            depth += kind is TokenType.R_PAREN
            if kind is TokenType.L_PAREN:
                if not depth and self.before[index - 1].token_type is TokenType.WITH:
                    return index - 1
                depth -= 1
        return 0

    def _given(self) -> dict[str, str]:
        """Return the properties before the position."""
        inside = self.before[self._with + 2 :]
        return {
            inside[index].text: inside[index + 2].text
            for index in range(len(inside) - 2)
            if inside[index].token_type is TokenType.STRING and inside[index + 1].token_type is TokenType.EQ
        }

    def _scope(self) -> Scope:
        previous = self.before[self._with - 1]
        if lexer.folded(previous) == "QUERY":
            return Scope.QUERY
        if any(token.token_type is TokenType.SELECT for token in self.before[: self._with]):
            return OF_SOURCES
        return scope_of(self.words) or Scope(0)

    def _accepted(self) -> Specs:
        scope = self._scope()
        return accepted(scope, self._store_type(scope))

    def _store_type(self, scope: Scope) -> str | None:
        given = self._given()
        if scope is Scope.STORE:
            named = given.get("type", "").lower()
            if self.words[:1] == ["CREATE"]:
                return named if named in STORE_TYPES else None
            return self._type_of(self.before[2].text if len(self.before) > 2 else None)
        if scope == OF_SOURCES:
            relation = self._relation_after(self._name_before(self._with))
            return self._type_of(relation.store) if relation is not None and relation.store else None
        words = [lexer.folded(token) for token in self.before[: self._with]]
        if words[-3:-1] == ["IN", "STORE"] or words[-2:-1] == ["STORE"]:
            return self._type_of(self.before[self._with - 1].text)
        return self._type_of(given.get("store") or self.run.context.store)

    def _name_before(self, index: int) -> int:
        """Return the index of the token before the dotted name, and its alias, that end before `index`."""
        while index > 0 and self.before[index - 1].token_type not in (
            TokenType.FROM,
            TokenType.JOIN,
            TokenType.COMMA,
        ):
            index -= 1
        return index - 1

    def _type_of(self, name: str | None) -> str | None:
        store = self.run.catalog.snapshot().store(name) if name else None
        return store.type if store is not None and self.run.knows(store) else None

    def _properties(self) -> Iterator[Candidate]:
        given = self._given()
        for spec in self._accepted():
            if spec.name and not any(spec.matches_name(name) for name in given):
                yield Candidate(
                    spec.name,
                    "property",
                    f"'{spec.name}" if spec.open else f"'{spec.name}'" + ("" if self._has_value() else " = "),
                    _default(spec),
                    _sentence(spec),
                )

    def _has_value(self) -> bool:
        return self.position.after.lstrip().startswith("=")

    def _values(self) -> Iterator[Candidate]:
        if len(self.before) < 2 or self.before[-2].token_type is not TokenType.STRING:
            return
        name = self.before[-2].text
        if name == "type" and self._scope() is Scope.STORE:
            yield from (self._value(word.upper()) for word in STORE_TYPES)
        elif name == "store":
            yield from (self._value(item.name) for item in self.run.visible(self.run.catalog.stores()))
        else:
            for spec in self._accepted():
                if spec.matches_name(name):
                    yield from map(self._value, spec.type.words)

    def _value(self, text: str) -> Candidate:
        insert = "'" + text.replace("'", "''") + "'"
        return Candidate(text, "value", insert)


def _default(spec: PropertySpec[Any]) -> str:
    return (
        ""
        if not spec.default
        else spec.default
        if spec.default.startswith("needed")
        else f"default: {spec.default}"
    )


def _sentence(spec: PropertySpec[Any]) -> str:
    return spec.doc[:1].upper() + spec.doc[1:] + "."


def _functions(run: Execution) -> Iterator[Candidate]:
    for name in sorted(calls.WITHOUT_PARENTHESES):
        yield Candidate(name, "function", name)
    for function, _ in built_in_functions():
        yield Candidate(function.name, "function", f"{function.name}(", function.signature, function.doc)
    for name in sorted(
        {*calls.SPECIAL, *map(str.lower, calls.CONSTRUCTORS)} - {name.lower() for name in CATALOGUE}
    ):
        opening = "[" if name.upper() in calls.CONSTRUCTORS else "("
        yield Candidate(name.upper(), "function", f"{name.upper()}{opening}")
    for user in run.visible(run.catalog.functions()):
        yield Candidate(
            user.name, "function", f"{printed(user.name)}(", user.declaration, "A function of a user."
        )
