"""Printing and reading are inverse, for any names, strings and expressions."""

from __future__ import annotations

from hypothesis import example, given, reject
from hypothesis import strategies as st

from headrace.core.errors import Span, UserError
from headrace.core.names import Identifier, QualifiedName, quote
from headrace.core.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    VARCHAR,
    Array,
    DataType,
    Decimal,
    Map,
    Struct,
    Timestamp,
)
from headrace.sql import is_complete, parse, split
from headrace.sql.ast import Properties, Property, Statement, quoted_text
from headrace.sql.lexer import HeadraceTokenizer
from headrace.sql.statements.entity import CreateEntity, InsertIntoEntity, ListEntities, ListPartitions
from headrace.sql.statements.query import SelectStatement, TerminateQuery
from headrace.sql.statements.relation import ColumnDefinition, CreateRelation, DescribeRelation

NOWHERE = Span(0, 0, 1, 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
KEYWORDS = st.sampled_from(
    [word.lower() for word in HeadraceTokenizer.KEYWORDS if word.isalpha()]
    + [
        "array",
        "map",
        "date",
        "timestamp",
        "within",
        "query",
        "group",
        "order",
        "by",
        "table",
        "columns",
        "store",
    ]
    + [
        "entity",
        "primary",
        "key",
        "if",
        "match_recognize",
        "current_date",
        "tumble",
        "unknown",
        "state",
        "history",
    ]
)
VISIBLE = st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"]), min_size=1, max_size=12)
NAMES = st.one_of(VISIBLE, KEYWORDS, st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True))
IDENTIFIERS = NAMES.map(Identifier)
QUALIFIED = st.lists(IDENTIFIERS, min_size=1, max_size=3).map(lambda parts: QualifiedName(tuple(parts)))
PROPERTIES = st.lists(st.tuples(TEXT, st.none() | TEXT), max_size=4, unique_by=lambda entry: entry[0]).map(
    lambda entries: Properties(tuple(Property(key, value, NOWHERE) for key, value in entries))
)
TYPES: st.SearchStrategy[DataType] = st.recursive(
    st.sampled_from([BIGINT, BOOLEAN, DOUBLE, VARCHAR, Decimal(38, 18), Timestamp(3), Timestamp(local=True)]),
    lambda inner: (
        inner.map(Array)
        | st.builds(Map, inner, inner)
        | st.lists(st.tuples(NAMES, inner), min_size=1, max_size=3).map(lambda fields: Struct(tuple(fields)))
    ),
    max_leaves=5,
)
EXPRESSIONS = st.recursive(
    st.one_of(
        NAMES.map(quote),
        st.tuples(NAMES, NAMES).map(lambda parts: f"{quote(parts[0])}.{quote(parts[1])}"),
        TEXT.map(quoted_text),
        st.integers(0, 10**20).map(str),
        st.sampled_from(
            ["NULL", "TRUE", "CURRENT_TIMESTAMP", "INTERVAL '5' DAY", "DATE '2020-01-01'", "1.5", "2e3"]
        ),
    ),
    lambda inner: st.one_of(
        st.tuples(
            inner, st.sampled_from(["+", "-", "*", "/", "%", "||", "=", "<>", "<", ">=", "AND", "OR"]), inner
        ).map(" ".join),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}) NOT LIKE ({pair[1]})"),
        st.tuples(inner, inner).map(
            lambda pair: f"CASE WHEN {pair[0]} THEN {pair[1]} ELSE ({pair[0]})[1] END"
        ),
        st.tuples(inner, NAMES).map(lambda pair: f"({pair[0]})->{quote(pair[1])}"),
        st.tuples(inner, TYPES).map(lambda pair: f"CAST({pair[0]} AS {pair[1]})"),
        st.tuples(NAMES, st.lists(inner, max_size=2)).map(
            lambda call: f"{quote(call[0])}({', '.join(call[1])})"
        ),
        inner.map(lambda text: f"NOT {text}"),
        inner.map(lambda text: f"- {text}"),
        inner.map(lambda text: f"({text}) IS NOT NULL"),
        inner.map(lambda text: f"count(DISTINCT {text})"),
    ),
    max_leaves=6,
)


def reread(statement: Statement) -> None:
    [again] = parse(statement.sql())
    assert again == statement
    assert again.sql() == statement.sql()


@given(QUALIFIED, st.none() | IDENTIFIERS, PROPERTIES)
def test_names_and_properties(name: QualifiedName, store: Identifier | None, properties: Properties) -> None:
    reread(CreateEntity(NOWHERE, "", name, store, properties))
    reread(ListEntities(NOWHERE, "", name, store))
    reread(ListPartitions(NOWHERE, "", name, store))
    reread(DescribeRelation(NOWHERE, "", name))


@given(QUALIFIED, TEXT)
def test_strings(name: QualifiedName, value: str) -> None:
    reread(InsertIntoEntity(NOWHERE, "", name, None, value, Properties()))


@given(
    st.lists(st.tuples(IDENTIFIERS, TYPES, st.booleans()), min_size=1, max_size=3, unique_by=lambda c: c[0])
)
def test_columns_of_any_type(columns: list[tuple[Identifier, DataType, bool]]) -> None:
    definitions = tuple(ColumnDefinition(name, kind, nullable) for name, kind, nullable in columns)
    properties = Properties((Property("topic", "t", NOWHERE),))
    name = QualifiedName((Identifier("r"),))
    reread(CreateRelation(NOWHERE, "", "STREAM", name, definitions, (columns[0][0],), properties))


@given(st.uuids().map(str) | NAMES)
def test_references_to_queries(reference: str) -> None:
    reread(TerminateQuery(NOWHERE, "", QualifiedName((Identifier(reference),))))


@given(EXPRESSIONS, NAMES)
@example("NOT TRUE", "a")
def test_expressions(expression: str, alias: str) -> None:
    try:
        [statement] = parse(f"SELECT {expression} AS {quote(alias)} FROM {quote(alias)} AS {quote(alias)}")
    except UserError:  # some combinations are no expressions, such as a IS NOT NULL + b
        reject()
    assert isinstance(statement, SelectStatement)
    reread(statement)


@given(
    st.lists(
        TEXT.map(quoted_text) | NAMES.map(quote) | st.sampled_from(["-- ;\n", "/* ; */", "a", " "]),
        max_size=6,
    )
)
def test_splitting_finds_what_was_joined(pieces: list[str]) -> None:
    statements = [f"x {piece} y" for piece in pieces]
    text = ";\n".join(statements)
    assert [text[start:end] for start, end in split(text)] == statements
    assert is_complete(text + ";")


FRAGMENTS = [
    "SELECT",
    "FROM",
    "WITH",
    "CREATE",
    "STREAM",
    "JOIN",
    "ON",
    "CASE",
    "WHEN",
    "TUMBLE",
    "SIZE",
    "AS",
    "CAST",
    "QUERY",
    "a",
    "1",
    ".5",
    "'x'",
    '"y"',
    "(",
    ")",
    "[",
    "]",
    "'",
    '"',
    ",",
    ";",
    ".",
    "->",
    "-",
    "=",
    "*",
    "--",
    "/*",
]


@given(st.text(max_size=60) | st.lists(st.sampled_from(FRAGMENTS)).map(" ".join))
def test_any_text_is_read_or_refused_with_a_place(text: str) -> None:
    span: Span | None = NOWHERE
    try:
        parse(text)
    except UserError as error:
        span = error.span
    assert span is not None
    assert 0 <= span.start <= span.end <= len(text)


ALIAS = NAMES.map(lambda name: f" AS {quote(name)}")
SPAN = st.sampled_from(["5 MINUTES", "1 DAY", "1500 MILLISECONDS"])
QUANTIFIERS = st.sampled_from(["", "+", "*?", "??", "{3}", "{2,}", "{2,3}?", "{,4}"])
SOURCES = st.recursive(
    st.tuples(QUALIFIED.map(str), st.just("") | ALIAS, PROPERTIES.map(Properties.sql)).map("".join),
    lambda inner: st.one_of(
        st.tuples(inner, st.just("") | ALIAS).map(lambda parts: f"(SELECT 1 FROM {parts[0]}){parts[1]}"),
        st.tuples(inner, inner).map(", ".join),
        st.tuples(
            inner,
            st.sampled_from(["JOIN", "INNER JOIN", "LEFT OUTER JOIN", "RIGHT JOIN", "FULL JOIN"]),
            QUALIFIED,
            NAMES,
        ).map(lambda parts: f"{parts[0]} {parts[1]} {parts[2]} USING ({quote(parts[3])})"),
        st.tuples(inner, QUALIFIED, SPAN, EXPRESSIONS).map(
            lambda parts: f"{parts[0]} JOIN {parts[1]} WITHIN {parts[2]} ON ({parts[3]})"
        ),
        st.tuples(inner, EXPRESSIONS, NAMES, NAMES).map(
            lambda parts: f"{parts[0]}, UNNEST({parts[1]}) AS {quote(parts[2])}({quote(parts[3])})"
        ),
        st.tuples(inner, EXPRESSIONS, NAMES).map(
            lambda parts: f"{parts[0]} CROSS JOIN LATERAL (SELECT {parts[1]}) AS {quote(parts[2])}"
        ),
        st.tuples(inner, SPAN, st.just("") | ALIAS).map(
            lambda parts: f"TUMBLE((SELECT 1 FROM {parts[0]}), SIZE {parts[1]}){parts[2]}"
        ),
        st.tuples(QUALIFIED, SPAN).map(
            lambda parts: f"CUMULATE({parts[0]}, SIZE {parts[1]}, STEP BY {parts[1]})"
        ),
        st.tuples(QUALIFIED, SPAN).map(lambda parts: f"SESSION({parts[0]}, GAP {parts[1]})"),
        st.tuples(
            QUALIFIED,
            NAMES,
            EXPRESSIONS,
            QUANTIFIERS,
            SPAN,
            st.just("") | ALIAS,
            PROPERTIES.map(Properties.sql),
        ).map(
            lambda parts: (
                f"{parts[0]} MATCH_RECOGNIZE (PARTITION BY {parts[2]} ORDER BY {quote(parts[1])} DESC "
                f"MEASURES {parts[2]} AS {quote(parts[1])} AFTER MATCH SKIP TO FIRST {quote(parts[1])} "
                f"PATTERN ({quote(parts[1])}{parts[3]} b) WITHIN {parts[4]} DEFINE b AS {parts[2]}){parts[5]}{parts[6]}"
            )
        ),
    ),
    max_leaves=4,
)
CONDITIONS = st.one_of(
    EXPRESSIONS,
    SOURCES.map(lambda sources: f"EXISTS (SELECT * FROM {sources})"),
    st.tuples(NAMES, SOURCES).map(lambda parts: f"{quote(parts[0])} NOT IN (SELECT 1 FROM {parts[1]})"),
)


@given(SOURCES, CONDITIONS, st.sampled_from(["UNION", "UNION ALL", "INTERSECT", "EXCEPT ALL"]), SOURCES)
def test_queries(sources: str, condition: str, word: str, others: str) -> None:
    text = f"SELECT SUM(x) FILTER (WHERE y) OVER (ORDER BY z) FROM {sources} WHERE {condition} {word} SELECT 1 FROM {others}"
    try:
        [statement] = parse(text)
    except UserError:
        reject()
    assert isinstance(statement, SelectStatement)
    reread(statement)
