"""Result of parsing: statements, their common parts, and our own nodes of sqlglot's tree.

A query is `Select`: sqlglot's tree, with these rules of ours.

    source          exp.Table, TimeWindow, ChangelogFunction, MatchRecognize, exp.Unnest or exp.Subquery; `properties_of(node)` gives
                    its WITH (…)
    join            exp.Join (side, kind, on, using as sqlglot has them); `within_of(join)` gives WITHIN in milliseconds or
                    None, `is_comma(join)` tells one more source of a list
    name            exp.Identifier, already folded: unquoted names are lower case. `quoted` is not significant
    column          exp.Column of one to four parts; `*` is exp.Star, `a.*` is exp.Column with a Star
    struct field    `a->b->"C"` is exp.Dot(this, expression=exp.Identifier), left to right; `a->*` ends with a Star
    element         `x[k]` is exp.Bracket with exactly one expression, as written (arrays count from 1)
    call            every call with ordinary arguments is exp.Anonymous: `this` is the folded name (a str), `expressions`
                    the arguments as written, aggregates included. `count(*)` has one exp.Star, `f(DISTINCT x, y)` one
                    exp.Distinct. `ARRAY[…]`, `MAP[…]`, `CURRENT_TIMESTAMP`, `SUBSTRING(x FROM 1 FOR 2)`,
                    `POSITION(x IN y)` and `FLOOR(t TO DAY)` become such calls too (a unit is exp.Var), and so do
                    `JSON_OBJECT(KEY k VALUE v)` and its like (`NULL ON NULL` is a last exp.Var);
                    `ARRAY_AGG(x IGNORE NULLS)` has an exp.IgnoreNulls
    subqueries      exp.Subquery, in FROM (`lateral` may be true), as a value, in exp.Exists (`this`) and exp.In (`query`); set
                    operations are exp.Union, exp.Intersect and exp.Except
    before a call   MatchSemantics, in MATCH_RECOGNIZE
    after a call    exp.Filter (its condition an exp.Where) and, around it or the call, exp.Window
    own syntax      exp.Cast and exp.TryCast (`type_of(node)` gives the target), exp.Case, exp.Extract, exp.Trim,
                    exp.Interval, JsonCall, exp.Tuple for `(a, b)`, exp.Overlaps of two of those; `IS JSON …` is exp.Is with an
                    exp.Var; `DATE '…'` and `TIMESTAMP '…'` are exp.Cast of a string
    negation        exp.Not around exp.Is, exp.In, exp.Between, exp.Like (never an argument of those)
    places          `span_of(node)` for any node

Nothing else occurs: the parser refuses every other node class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sqlglot import exp

from headrace.core.errors import InternalError, Span
from headrace.core.names import Identifier, printed
from headrace.core.types import DataType, parse_type

_UNITS = (
    (86_400_000, "DAY"),
    (3_600_000, "HOUR"),
    (60_000, "MINUTE"),
    (1_000, "SECOND"),
    (1, "MILLISECOND"),
)


def quoted_text(value: str) -> str:
    """Return `value` as a string literal. Backslashes are ordinary characters in the dialect."""
    return "'" + value.replace("'", "''") + "'"


def duration_text(milliseconds: int) -> str:
    """Return a time span in its largest whole unit: 90000 → `90 SECONDS`."""
    size, unit = next((size, unit) for size, unit in _UNITS if milliseconds % size == 0)
    count = milliseconds // size
    return f"{count} {unit}" if count == 1 else f"{count} {unit}S"


def quantified(variable: str, least: int, most: int | None, greedy: bool) -> str:
    """Return a variable or group of a PATTERN as it is written: `b+`, `b{2,}?`. `most` None is any number of rows."""
    words = {(1, 1): "", (0, 1): "?", (0, None): "*", (1, None): "+"}
    if (word := words.get((least, most))) is None:
        word = f"{{{least}}}" if least == most else f"{{{least},{'' if most is None else most}}}"
    return variable + word + ("" if greedy else "?")


@dataclass(frozen=True)
class Property:
    """An entry of WITH (…). `value` is text as written, without its quotes; None when the key is given alone, or is to be `removed`.

    The value may be a password: it is left out of the repr. With `names_secret` it is the name of a secret.
    """

    key: str
    value: str | None = field(repr=False)
    span: Span = field(compare=False)
    removed: bool = False
    names_secret: bool = False

    def sql(self) -> str:
        """Return canonical text; the value is always a string."""
        if self.removed:
            return f"{quoted_text(self.key)} = NULL"
        if self.value is None:
            return quoted_text(self.key)
        if self.names_secret:
            return f"{quoted_text(self.key)} = SECRET {printed(self.value)}"
        return f"{quoted_text(self.key)} = {quoted_text(self.value)}"


@dataclass(frozen=True)
class Properties:
    """Entries of a WITH (…), in order, without duplicate keys; empty if there is none."""

    entries: tuple[Property, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[str]:
        return (entry.key for entry in self.entries)

    def __contains__(self, key: object) -> bool:
        return any(entry.key == key for entry in self.entries)

    def get(self, key: str) -> str | None:
        """Return the value of `key`; None when it is absent or stands alone."""
        return next((entry.value for entry in self.entries if entry.key == key), None)

    def items(self) -> Iterable[tuple[str, str | None]]:
        """Return (key, value) pairs in order."""
        return [(entry.key, entry.value) for entry in self.entries]

    def span(self, key: str) -> Span | None:
        """Return the span of `key` and its value, or None when it is absent."""
        return next((entry.span for entry in self.entries if entry.key == key), None)

    def sql(self, prefix: str = " ") -> str:
        """Return `WITH (…)` after `prefix`, or nothing when empty."""
        if not self.entries:
            return ""
        return f"{prefix}WITH ({', '.join(entry.sql() for entry in self.entries)})"


TIME_WINDOWS = ("TUMBLE", "HOP", "CUMULATE", "SESSION")


class TimeWindow(exp.Expression):
    """A window function over a relation, in FROM.

    Arguments: `this` exp.Table (name only) or exp.Subquery (no alias), `kind` one of TIME_WINDOWS,
    `size_ms` an int (the gap of a SESSION), `advance_ms` an int or None (HOP's advance, CUMULATE's step), `alias`
    exp.TableAlias or None, `time` the column that the statement names as the event time, or None, `offset_ms` how much later than
    the multiples of its size since 1970 a window starts (negative: earlier), or None, `partition_by` the list of exp.Column whose values
    the rows of a SESSION share, or None.
    """

    arg_types = {  # noqa: RUF012
        "this": True,
        "kind": True,
        "size_ms": True,
        "advance_ms": False,
        "time": False,
        "offset_ms": False,
        "partition_by": False,
        "alias": False,
    }

    @property
    def kind(self) -> str:
        """The kind, one of TIME_WINDOWS."""
        return str(self.args["kind"])

    @property
    def function(self) -> str:
        """The function's name."""
        return self.kind

    @property
    def size_ms(self) -> int:
        """Window size, or the gap of a SESSION, in milliseconds."""
        return int(self.args["size_ms"])

    @property
    def advance_ms(self) -> int | None:
        """HOP's advance or CUMULATE's step in milliseconds."""
        value = self.args.get("advance_ms")
        return None if value is None else int(value)

    @property
    def offset_ms(self) -> int:
        """Offset of the windows' starts in milliseconds."""
        return int(self.args.get("offset_ms") or 0)


class ChangelogFunction(exp.Expression):
    """TO_CHANGELOG or FROM_CHANGELOG over a relation, in FROM.

    Arguments: `this` as of a TimeWindow, `kind` 'TO' | 'FROM', `partition_by` a list of exp.Identifier or None, `op` the exp.Identifier
    of the column with the operation or None, `mapping` a list of exp.Literal, keys and values in turn, or None, `alias`.
    """

    arg_types = {  # noqa: RUF012
        "this": True,
        "kind": True,
        "partition_by": False,
        "op": False,
        "mapping": False,
        "alias": False,
    }

    @property
    def function(self) -> str:
        """The function's name."""
        return f"{self.args['kind']}_CHANGELOG"


class GroupingSets(exp.Expression):
    """GROUPING SETS, ROLLUP or CUBE in GROUP BY: `kind`, and `expressions`, each an expression, exp.Tuple, or GroupingSets."""

    arg_types = {"kind": True, "expressions": True}  # noqa: RUF012


class PatternVariable(exp.Expression):
    """A variable of a PATTERN: `this` exp.Identifier, how many rows it takes, `least` to `most` (None: any number), and whether it is
    `greedy`, which is to take as many as it can.
    """

    arg_types = {"this": True, "least": True, "most": False, "greedy": True}  # noqa: RUF012


class PatternGroup(exp.Expression):
    """A part of a PATTERN that consists of `expressions`, each a PatternVariable or PatternGroup, and how often it is repeated, as
    for a variable.

    `kind`: 'SEQUENCE' `(a b)`, 'ALTERNATION' `(a | b)`, 'PERMUTATION' `PERMUTE(a, b)`, or 'EXCLUSION' `{- a b -}`.
    """

    arg_types = {"kind": True, "expressions": True, "least": True, "most": False, "greedy": True}  # noqa: RUF012


class PatternSubset(exp.Expression):
    """An item of SUBSET: `this` exp.Identifier, the name, and `expressions`, the exp.Identifiers of its variables."""

    arg_types = {"this": True, "expressions": True}  # noqa: RUF012


class MatchSemantics(exp.Expression):
    """`RUNNING` or `FINAL` before a call in MEASURES: `this` exp.Anonymous, `final`."""

    arg_types = {"this": True, "final": True}  # noqa: RUF012


class MatchRecognize(exp.Expression):
    """The matches of a pattern in the rows of a relation, in FROM.

    Arguments: `this` exp.Table (name only, with the properties of the source) or exp.Subquery (no alias), `partition_by` a list or
    None, `order` exp.Order, `measures` a list of exp.Alias or None, `all_rows` for ALL ROWS PER MATCH, `skip` 'TO NEXT ROW' |
    'PAST LAST ROW' | 'TO FIRST' | 'TO LAST' or None, `skip_to` exp.Identifier of the last two, `pattern` a list of PatternVariable and
    PatternGroup, `within_ms` an int or None, `subsets` a list of PatternSubset or None, `define` a list of exp.Alias (variable as the
    name of its condition) or None, `alias` exp.TableAlias or None.
    """

    arg_types = {  # noqa: RUF012
        "this": True,
        "partition_by": False,
        "order": True,
        "measures": False,
        "all_rows": False,
        "skip": False,
        "skip_to": False,
        "pattern": True,
        "within_ms": False,
        "subsets": False,
        "define": False,
        "alias": False,
    }


class TypeName(exp.Expression):
    """A data type inside an expression; `this` is its canonical text, see `headrace.core.types`."""

    arg_types = {"this": True}  # noqa: RUF012
    hash_raw_args = True  # field names of a STRUCT differ by case

    @property
    def data_type(self) -> DataType:
        """The type."""
        return parse_type(str(self.this))


class JsonCall(exp.Expression):
    """JSON_VALUE, JSON_QUERY or JSON_EXISTS with clauses after the path; without clauses it is an ordinary call.

    Arguments: `name` 'json_value' | 'json_query' | 'json_exists', `this` the document, `path`, `returning` TypeName or None,
    `wrapper` 'WITHOUT' | 'CONDITIONAL' | 'UNCONDITIONAL' or None,
    `on_empty` and `on_error` 'NULL' | 'ERROR' | 'EMPTY ARRAY' | 'EMPTY OBJECT' or an expression (DEFAULT), or None.
    The `on_error` of JSON_EXISTS is 'TRUE' | 'FALSE' | 'UNKNOWN' | 'ERROR'.
    """

    arg_types = {  # noqa: RUF012
        "name": True,
        "this": True,
        "path": True,
        "returning": False,
        "wrapper": False,
        "on_empty": False,
        "on_error": False,
    }


def properties_of(source: exp.Expr) -> Properties:
    """Return the WITH (…) of a source in FROM; empty when it has none."""
    properties = source.meta.get("properties")
    return properties if isinstance(properties, Properties) else Properties()


_INTERVAL_MS = {unit: size for size, unit in (*_UNITS, (604_800_000, "WEEK"))}


def interval_ms(interval: exp.Interval) -> int:
    """Return the milliseconds of `INTERVAL '5' MINUTE`; 0 for months and years."""
    return int(interval.name) * _INTERVAL_MS.get(interval.args["unit"].name, 0)


def length_span(window: TimeWindow) -> Span | None:
    """Return the span of a window's advance, or of its size if it has no advance."""
    span = window.meta.get("advance_ms") or window.meta.get("size_ms")
    return span if isinstance(span, Span) else None


def within_of(join: exp.Join) -> int | None:
    """Return the join's WITHIN in milliseconds, or None."""
    within = join.meta.get("within_ms")
    return within if isinstance(within, int) else None


def star_of(item: exp.Expr | None) -> exp.Star | None:
    """Return the star of `*`, `a.*` and `a->*`; None for another item of a SELECT list."""
    last = (
        item.this if isinstance(item, exp.Column) else item.expression if isinstance(item, exp.Dot) else item
    )
    return last if isinstance(last, exp.Star) else None


def placed(tree: exp.Select, place: exp.Expr) -> exp.Select:
    """Return a query that was not written as it is: its nodes without a place get that of `place`, at which errors point."""
    for node in tree.walk():
        if span_of(node) is None:
            node.update_positions(place)
    return tree


def is_comma(join: exp.Join) -> bool:
    """True for `b` of `FROM a, b`."""
    return not (join.method or join.side or join.kind or join.args.get("on") or join.args.get("using"))


def type_of(cast: exp.Expr) -> DataType:
    """Return the target of exp.Cast, exp.TryCast, or the RETURNING of JsonCall."""
    target = cast.args.get("to") or cast.args.get("returning")
    if not isinstance(target, TypeName):
        raise InternalError(f"no type in a node of class {type(cast).__name__}")
    return target.data_type


def span_of(node: exp.Expr) -> Span | None:
    """Return the span from the first to the last character of `node`; None for nodes made outside the parser.

    Positions are kept on names, literals and keywords; closing brackets are not part of a span.
    """
    first: Span | None = None
    end = 0
    for part in node.walk():
        meta = part.meta
        if "start" not in meta:
            continue
        if first is None or meta["start"] < first.start:
            first = Span(meta["start"], meta["end"] + 1, meta["line"], meta["col"])
        end = max(end, meta["end"] + 1)
    return None if first is None else Span(first.start, end, first.line, first.column)


def start_of(node: exp.Expr) -> Span | None:
    """Return the span of a node's own word, such as the name of a call without its arguments; None if it has no position."""
    meta = node.meta
    if "start" not in meta:
        return None
    return Span(meta["start"], meta["end"] + 1, meta["line"], meta["col"])


def is_enclosed(name: exp.Identifier) -> bool:
    """True if a name was written in quotes, whether or not it needs them."""
    start, end = name.meta.get("start"), name.meta.get("end")
    return start is not None and end is not None and end + 1 - start > len(name.name)


@dataclass(frozen=True)
class Select:
    """A query: its tree, `QUERY WITH (…)`, and the columns of a trailing PARTITION BY. See the module's text."""

    expression: exp.Query
    query_properties: Properties
    partition_by: tuple[Identifier, ...]
    span: Span = field(compare=False)

    def sql(self) -> str:
        """Return canonical text."""
        text = self.expression.sql(dialect="headrace")
        if self.partition_by:
            text += " PARTITION BY " + ", ".join(str(name) for name in self.partition_by)
        return text + self.query_properties.sql(" QUERY ")


@dataclass(frozen=True)
class Statement(ABC):
    """Base of all statements: `text` as written, without the semicolon, and its place in what was given to `parse`.

    Neither takes part in comparisons.
    """

    span: Span = field(compare=False)
    text: str = field(compare=False, repr=False)

    @abstractmethod
    def sql(self) -> str:
        """Return canonical text, which parses to an equal statement."""
