"""Pages of a system relation, and the rows that refer to each of many rows, with one read of the relation for all.

The order of the rows is that of the relation's key, so that a page continues after the last key of the page before, whatever has been
created or dropped meanwhile.
"""

from __future__ import annotations

import datetime
import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import eq, ge, gt, itemgetter, le, lt, ne
from typing import Any

from headrace.planner.view_reads import Condition
from headrace.statements.base import Execution
from headrace.statements.system.relation import RELATIONS, Reference, SystemRelation

Row = tuple[Any, ...]
Key = tuple[Any, ...]

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": eq,
    "<>": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
    "IN": lambda value, values: value in values,
    "CONTAINS": lambda value, text: text in value,
    "STARTS WITH": lambda value, text: value.startswith(text),
}


@dataclass(frozen=True)
class RowCondition:
    """`column operator value`: a comparison, IN with a collection, CONTAINS, STARTS WITH, IS NULL or IS NOT NULL.

    As in SQL, NULL fulfils only IS NULL. Times are aware datetimes.
    """

    column: str
    operator: str
    value: Any = None

    def predicate(self, place: int) -> Callable[[Row], bool]:
        """Return the test of a row that has the column at `place`."""
        if self.operator == "IS NULL":
            return lambda row: row[place] is None
        if self.operator == "IS NOT NULL":
            return lambda row: row[place] is not None
        compare, operand = _COMPARISONS[self.operator], self.value
        return lambda row: row[place] is not None and compare(row[place], operand)

    @property
    def condition(self) -> Condition | None:
        """The test as a condition on the relation's read; None for a test that reads do not know."""
        if self.operator in ("IS NULL", "IS NOT NULL"):
            return Condition(self.column, self.operator)
        if self.operator in ("CONTAINS", "STARTS WITH") or isinstance(self.value, bool):
            return None
        values = self.value if self.operator == "IN" else (self.value,)
        return Condition(self.column, self.operator, tuple(map(_text, values)))


@dataclass(frozen=True)
class PageRequest:
    """Request of at most `limit` rows after the row with the key `after` (None: from the first)."""

    limit: int
    after: Key | None = None


@dataclass(frozen=True)
class Page:
    """Rows in the order of their keys, whether more follow, and the number of the rows of all pages."""

    rows: Sequence[Row]
    has_next: bool
    count: int


def page_of(
    relation: SystemRelation, run: Execution, tests: Sequence[RowCondition], request: PageRequest
) -> Page:
    """Return a page of the rows that meet the tests. Raises UserError 42501 if the role may not read the relation."""
    return _page(relation, _selected(relation, run, tests), request)


def pages_by_reference(
    relation: SystemRelation,
    run: Execution,
    reference: Reference,
    targets: Collection[Key],
    tests: Sequence[RowCondition],
    request: PageRequest,
) -> dict[Key, Page]:
    """Return a page of the rows that refer to each of the targets. Raises UserError 42501 if the role may not read the relation."""
    grouped = grouped_rows(relation, run, reference.columns, targets, (*tests, *condition_of(reference)))
    return {target: _page(relation, grouped.get(target, ()), request) for target in targets}


def grouped_rows(
    relation: SystemRelation,
    run: Execution,
    columns: Sequence[str],
    values: Collection[Key],
    tests: Sequence[RowCondition] = (),
) -> dict[Key, list[Row]]:
    """Return the rows whose columns have one of the values, by these. Raises UserError 42501 if the role may not read the relation."""
    narrowing = [
        RowCondition(column, "IN", frozenset(value[place] for value in values))
        for place, column in enumerate(columns)
    ]
    key = _values(relation, columns)
    groups: dict[Key, list[Row]] = {}
    for row in _selected(relation, run, (*narrowing, *tests)):
        groups.setdefault(key(row), []).append(row)
    return groups


def condition_of(reference: Reference) -> tuple[RowCondition, ...]:
    """Return the test that a row refers to anything by the reference."""
    return (RowCondition(reference.when[0], "=", reference.when[1]),) if reference.when is not None else ()


def referred(relation: SystemRelation, reference: Reference) -> tuple[SystemRelation, tuple[str, ...]]:
    """Return the relation that a reference of `relation` leads to, and its columns that identify the row."""
    target = RELATIONS[relation.schema, reference.relation]
    return target, reference.targets or target.key


def key_of(relation: SystemRelation, row: Row) -> Key:
    """Return the key of a row."""
    return _values(relation, relation.key)(row)


def _selected(relation: SystemRelation, run: Execution, tests: Sequence[RowCondition]) -> Iterable[Row]:
    if relation.requirement is not None:
        run.check([relation.requirement])
    conditions = [condition for test in tests if (condition := test.condition) is not None]
    predicates = [test.predicate(relation.places[test.column]) for test in tests]
    rows = relation.read(run, conditions)
    return (row for row in rows if all(holds(row) for holds in predicates)) if predicates else rows


def _page(relation: SystemRelation, rows: Iterable[Row], request: PageRequest) -> Page:
    key, count = _sort_key(relation), 0

    def counted() -> Iterator[Row]:
        nonlocal count
        for row in rows:
            count += 1
            yield row

    following: Iterator[Row] = counted()
    if request.after is not None:
        after = _comparable(request.after) if _has_null(relation) else request.after
        following = (row for row in following if key(row) > after)
    first = heapq.nsmallest(request.limit + 1, following, key=key)
    return Page(first[: request.limit], len(first) > request.limit, count)


def _values(relation: SystemRelation, columns: Sequence[str]) -> Callable[[Row], Key]:
    """Return the function from a row to the values of these columns."""
    places = [relation.places[column] for column in columns]
    if len(places) == 1:
        (place,) = places
        return lambda row: (row[place],)
    return itemgetter(*places)


def _sort_key(relation: SystemRelation) -> Callable[[Row], Key]:
    key = _values(relation, relation.key)
    return (lambda row: _comparable(key(row))) if _has_null(relation) else key


def _has_null(relation: SystemRelation) -> bool:
    return any(relation.columns[relation.places[column]].nullable for column in relation.key)


def _comparable(key: Key) -> Key:
    """Return a key that can be compared although values are NULL: these are last."""
    return tuple((value is None, "" if value is None else value) for value in key)


def _text(value: object) -> str:
    """Return the canonical text of a condition's value: times are in UTC without a zone."""
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat(" ")
    return str(value)
