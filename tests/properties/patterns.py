"""Reference matcher of MATCH_RECOGNIZE in the meaning of the SQL standard, and random patterns for it.

The matcher tries all ways to take rows, the preferred first, by backtracking; it knows nothing of streams.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby, permutations
from typing import Any

from tests.properties.templates import END_KEY, LATENCY_MS, Template

Row = Mapping[str, Any]
Labels = tuple[str, ...]
"""The variables of the rows that were taken."""

NAMES = ("a", "b", "c")
UNION = {"u": ("a", "c")}
"""SUBSET u = (a, c), in every query."""
_RANGES = {"?": (0, 1), "*": (0, None), "+": (1, None), "{2}": (2, 2), "{1,2}": (1, 2), "{,2}": (0, 2)}


@dataclass(frozen=True)
class Part:
    """A part of a pattern: `kind` as written in a query, of a `variable` or `items`."""

    kind: str
    variable: str = ""
    items: tuple[Part, ...] = ()
    quantifier: str = ""
    greedy: bool = True

    def __str__(self) -> str:
        inner = " ".join(map(str, self.items))
        texts = {
            "variable": self.variable,
            "group": f"({inner})",
            "exclusion": f"{{- {inner} -}}",
            "alternation": f"({' | '.join(map(str, self.items))})",
            "permutation": f"PERMUTE({', '.join(map(str, self.items))})",
        }
        return texts[self.kind] + self.quantifier + ("" if self.greedy else "?")


@dataclass(frozen=True)
class Search:
    """A pattern over the rows of a partition, in order. `conditions` return if the last of the labels may take its row."""

    rows: Sequence[Row]
    conditions: Mapping[str, Callable[[Sequence[Row], int, Labels], bool]]
    within_ms: int

    def ways(self, part: Part, start: int, labels: Labels) -> Iterator[Labels]:
        """Yield the labels after the part, in the order of preference; a label in capitals is excluded from ALL ROWS."""
        if not part.quantifier:
            yield from self._once(part, start, labels)
            return
        least, most = _RANGES[part.quantifier]

        def repeated(count: int, labels: Labels) -> Iterator[Labels]:
            def again() -> Iterator[Labels]:
                if most is None or count < most:
                    for more in self._once(part, start, labels):
                        # An iteration that takes no row ends the repetition.
                        yield from repeated(count + 1, more) if more != labels else (more,)

            if part.greedy:
                yield from again()
            if count >= least:
                yield labels
            if not part.greedy:
                yield from again()

        yield from repeated(0, labels)

    def _once(self, part: Part, start: int, labels: Labels) -> Iterator[Labels]:
        if part.kind == "variable":
            yield from self._taken(part.variable, start, labels)
        elif part.kind == "alternation":
            for item in part.items:
                yield from self.ways(item, start, labels)
        elif part.kind == "permutation":
            for order in permutations(part.items):
                yield from self._sequence(order, start, labels)
        else:
            for after in self._sequence(part.items, start, labels):
                own = after[len(labels) :]
                yield (*labels, *(map(str.upper, own) if part.kind == "exclusion" else own))

    def _sequence(self, items: Sequence[Part], start: int, labels: Labels) -> Iterator[Labels]:
        if not items:
            yield labels
            return
        for after in self.ways(items[0], start, labels):
            yield from self._sequence(items[1:], start, after)

    def _taken(self, variable: str, start: int, labels: Labels) -> Iterator[Labels]:
        row = start + len(labels)
        if row < len(self.rows) and self.rows[row]["t"] - self.rows[start]["t"] < self.within_ms:
            more = (*labels, variable)
            if self.conditions[variable](self.rows, start, tuple(map(str.lower, more))):
                yield more

    def matches(self, pattern: Part, skip: Callable[[Labels], int]) -> Iterator[tuple[int, Labels]]:
        """Yield the first row and the labels of each match; `skip` returns how far from its first row the search goes on."""
        start = 0
        while start < len(self.rows):
            labels = next(self.ways(pattern, start, ()), None)
            if labels is not None:
                yield start, labels
            start += max(skip(tuple(map(str.lower, labels))), 1) if labels is not None else 1


def _values(rows: Sequence[Row], start: int, labels: Labels, names: Sequence[str]) -> list[Any]:
    return [rows[start + place]["v"] for place, label in enumerate(labels) if label in names]


def _rises(rows: Sequence[Row], start: int, labels: Labels) -> bool:
    at = start + len(labels) - 1
    return at > 0 and rows[at]["v"] > rows[at - 1]["v"]


def _differs(rows: Sequence[Row], start: int, labels: Labels) -> bool:
    first = _values(rows, start, labels, ["a"])[:1]
    return bool(first) and rows[start + len(labels) - 1]["v"] % 5 != first[0] % 5


CONDITIONS: Mapping[str, Callable[[Sequence[Row], int, Labels], bool]] = {
    "TRUE": lambda _rows, _start, _labels: True,
    "{0}.v < 60": lambda rows, start, labels: rows[start + len(labels) - 1]["v"] < 60,
    "v >= 40": lambda rows, start, labels: rows[start + len(labels) - 1]["v"] >= 40,
    "v % 3 > 0": lambda rows, start, labels: rows[start + len(labels) - 1]["v"] % 3 > 0,
    "{0}.v > PREV({0}.v)": _rises,
    "SUM(u.v) < 150 OR u.v IS NULL": lambda rows, start, labels: (
        sum(_values(rows, start, labels, UNION["u"])) < 150
    ),
    "COUNT({0}.*) <= 2": lambda _rows, _start, labels: labels.count(labels[-1]) <= 2,
    "v % 5 <> FIRST(a.v) % 5": _differs,
}
"""Conditions of a variable, `{0}`, in SQL and in Python."""

SKIPS: Mapping[str, Callable[[Labels], int]] = {
    "TO NEXT ROW": lambda _labels: 1,
    "PAST LAST ROW": len,
    "TO FIRST b": lambda labels: labels.index("b") if "b" in labels else 0,
    "TO LAST u": lambda labels: max(
        (at for at, label in enumerate(labels) if label in UNION["u"]), default=0
    ),
}


def _drawn(drawn: random.Random, depth: int) -> Part:
    kind = drawn.choice(["variable", "group", "alternation", "alternation", "permutation", "exclusion"])
    quantifier = drawn.choice(list(_RANGES)) if drawn.random() < 0.3 else ""
    greedy = not quantifier or drawn.random() < 0.6
    if depth == 0 or kind == "variable":
        return Part("variable", drawn.choice(NAMES), quantifier=quantifier, greedy=greedy)
    items = tuple(_drawn(drawn, depth - 1) for _ in range(drawn.randint(2, 3)))
    return Part(kind, items=items, quantifier=quantifier, greedy=greedy)


def _may_be_empty(part: Part) -> bool:
    if part.kind == "variable" or (part.quantifier and _RANGES[part.quantifier][0] == 0):
        return part.kind != "variable" or (bool(part.quantifier) and _RANGES[part.quantifier][0] == 0)
    return (any if part.kind == "alternation" else all)(map(_may_be_empty, part.items))


def drawn_pattern(drawn: random.Random, name: str) -> Template:
    """Return a query with a random pattern, conditions and measures, and its rows by the reference matcher."""
    pattern = Part("variable", "a", quantifier="*")
    while _may_be_empty(pattern) or len(set(NAMES) & set(str(pattern))) < 2:
        pattern = Part("group", items=tuple(_drawn(drawn, 1) for _ in range(drawn.randint(1, 3))))
    used = [name for name in NAMES if name in _variables(pattern)]
    # Conditions may read all three.
    whole = Part(
        "group",
        items=(pattern, *(Part("variable", name, quantifier="?") for name in NAMES if name not in used)),
    )
    chosen = {name: drawn.choice(list(CONDITIONS)) for name in NAMES}
    skip = drawn.choice(list(SKIPS))
    within = drawn.choice([3, 5])
    all_rows = drawn.random() < 0.5
    measures = (
        "MATCH_NUMBER() AS number, CLASSIFIER() AS label, COUNT(*) AS so_far, FINAL COUNT(*) AS n, SUM(u.v) AS total, "
        "FINAL LAST(b.t) AS last_b, LAST(v, 1) AS before"
        if all_rows
        else "MATCH_NUMBER() AS number, CLASSIFIER() AS label, FIRST(t) AS began, COUNT(*) AS n, SUM(u.v) AS total, "
        "LAST(b.t) AS last_b, FIRST(c.v, 1) AS second_c, COUNT(a.*) AS as"
    ).replace(" AS as", " AS a_rows")
    define = ", ".join(f"{name} AS {condition.format(name)}" for name, condition in chosen.items())
    source = f"WITH ('starting.position' = 'earliest', 'source.allow.latency.millis' = {LATENCY_MS})"
    select = (
        f"SELECT * FROM (SELECT k, v, t FROM s {source} WHERE k <> '{END_KEY}' AND v IS NOT NULL) MATCH_RECOGNIZE ("
        f"PARTITION BY k ORDER BY t, v MEASURES {measures} {'ALL ROWS' if all_rows else 'ONE ROW'} PER MATCH "
        f"AFTER MATCH SKIP {skip} PATTERN ({whole}) WITHIN {within} SECONDS SUBSET u = (a, c) DEFINE {define}) AS m"
    )
    # After NEXT ROW, matches have their numbers in the order in which they end.
    hides = skip == "TO NEXT ROW"
    if hides:
        select = select.replace("MATCH_NUMBER() AS number, ", "")

    def expected(rows: Sequence[Row]) -> tuple[list[str], list[tuple[Any, ...]]]:
        known = [row for row in rows if row["v"] is not None]
        ordered = sorted(known, key=lambda row: (row["k"], row["t"], row["v"]))
        results: list[dict[str, Any]] = []
        for key, partition in groupby(ordered, key=lambda row: row["k"]):
            search = Search(
                list(partition), {name: CONDITIONS[chosen[name]] for name in NAMES}, within * 1000
            )
            for number, (start, labels) in enumerate(search.matches(whole, SKIPS[skip]), 1):
                shown = _shown if all_rows else _summary
                results += [{"k": key, "number": number, **row} for row in shown(search.rows, start, labels)]
        names = [column for column in (results[0] if results else {}) if not (hides and column == "number")]
        return names, [tuple(row[name] for name in names) for row in results]

    return Template(name, select, "", rows=expected)


def _variables(part: Part) -> set[str]:
    return reduce(set.union, map(_variables, part.items), {part.variable} - {""})


def _summary(rows: Sequence[Row], start: int, labels: Labels) -> Iterator[dict[str, Any]]:
    plain = tuple(map(str.lower, labels))
    times = [rows[start + place]["t"] for place, label in enumerate(plain) if label == "b"]
    united = _values(rows, start, plain, UNION["u"])
    yield {
        "label": plain[-1],
        "began": rows[start]["t"],
        "n": len(plain),
        "total": sum(united) if united else None,
        "last_b": times[-1] if times else None,
        "second_c": next(iter(_values(rows, start, plain, ["c"])[1:]), None),
        "a_rows": plain.count("a"),
    }


def _shown(rows: Sequence[Row], start: int, labels: Labels) -> Iterator[dict[str, Any]]:
    plain = tuple(map(str.lower, labels))
    times = [rows[start + place]["t"] for place, label in enumerate(plain) if label == "b"]
    for place, label in enumerate(labels):
        united = _values(rows, start, plain[: place + 1], UNION["u"])
        row = {
            "label": plain[place],
            "so_far": place + 1,
            "n": len(plain),
            "total": sum(united) if united else None,
            "last_b": times[-1] if times else None,
            "before": rows[start + place - 1]["v"] if place else None,
            "v": rows[start + place]["v"],
            "t": rows[start + place]["t"],
        }
        if label.islower():
            yield row
