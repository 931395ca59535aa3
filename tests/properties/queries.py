"""Random queries over the relations of `templates`, each in the dialect and in DuckDB's SQL: sub-selects in sub-selects of joins, groups,
Top-N, DISTINCT, UNION, IN and EXISTS, over changelogs and over streams. What a batch says of a query is what its stream says in the end.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from tests.properties.templates import END_KEY, LATENCY_MS, Template

_SOURCE = f"WITH ('starting.position' = 'earliest', 'source.allow.latency.millis' = {LATENCY_MS})"
_PLACE = "«source»"
_FIRST, _LAST = "«nulls first»", "«nulls last»"
"""Where NULLs stand in an order: in the dialect the least value, in DuckDB's SQL to be said."""
_DEPTH = 2

Column = tuple[str, str]
"""A name and a domain: columns of one domain have values in common. 'text' is what is only shown."""


@dataclass(frozen=True)
class Query:
    """A query, whose `columns` are names without the alias of a source.

    With `changes` its rows are updated or deleted, so that the result is a changelog.
    """

    text: str
    columns: list[Column]
    changes: bool


class Queries:
    """An endless source of them, the same for the same `random_source`."""

    def __init__(self, random_source: random.Random) -> None:
        self._random = random_source
        self._sources = 0

    def template(self, name: str) -> Template:
        """The next query, as a template of that name."""
        query = self._select(self._random.choice((1, _DEPTH, _DEPTH)))
        if query.changes:
            query = self._counted(query)
        ours = re.sub(rf"(\w+) {_PLACE} AS (\w+)", rf"\1 AS \2 {_SOURCE}", query.text)
        return Template(
            name,
            ours.replace(_PLACE, _SOURCE).replace(_FIRST, "").replace(_LAST, ""),
            query.text.replace(_PLACE, "").replace(_FIRST, "NULLS FIRST").replace(_LAST, "NULLS LAST"),
            changelog=query.changes,
        )

    def _one_of(self, *choices: str) -> str:
        return self._random.choice(choices)

    def _is(self, chance: float) -> bool:
        return self._random.random() < chance

    def _alias(self) -> str:
        self._sources += 1
        return f"a{self._sources}"

    def _counted(self, query: Query) -> Query:
        """Return the query that counts equal rows: a changelog must be stored by a key, and this is one of any query."""
        names = ", ".join(name for name, _ in query.columns)
        text = f"SELECT {names}, COUNT(*) AS copies FROM ({query.text}) AS {self._alias()} GROUP BY {names}"
        return Query(text, query.columns, changes=True)

    # --- rows

    def _relation(self, changes: bool) -> Query:
        if changes:
            columns = [("id", "id"), ("k", "key"), ("w", "number")]
            return Query(f"{self._one_of('u', 'x')} {_PLACE}", columns, changes=True)
        rows = f"(SELECT k, v, t FROM {self._one_of('s', 'r')} {_PLACE} WHERE k <> '{END_KEY}')"
        return Query(rows, [("k", "key"), ("v", "number"), ("t", "time")], changes=False)

    def _rows(self, depth: int, changes: bool) -> Query:
        if depth > 0 and self._is(0.5):
            query = self._select(depth - 1)
            if query.changes == changes:
                return Query(f"({query.text})", query.columns, changes)
        return self._relation(changes)

    def _from(self, depth: int) -> Query:
        """A FROM clause; its columns have their sources' names."""
        first = self._rows(depth, changes=self._is(0.7))
        text, known = self._named(first)
        # Rows of a stream stay in a join for good, so that a second join would multiply them.
        for _ in range(self._random.choice((0, 0, 1, 1, 2 if first.changes else 1)) if depth else 0):
            other, columns = self._named(self._rows(depth - 1, first.changes))
            pairs = [(a, b) for a, one in known for b, two in columns if one == two != "text"]
            if not pairs:
                break
            on = " = ".join(self._random.choice(pairs))
            left, right = self._any_of(known, "number"), self._any_of(columns, "number")
            if left and right and self._is(0.3):
                on += f" AND {left} {self._one_of('<', '>', '<=')} {right}"
            kind = self._one_of("", "", "LEFT ", "RIGHT ", "FULL ") if first.changes else ""
            text += f" {kind}JOIN {other} ON {on}"
            known += columns
        return Query(text, known, first.changes)

    def _named(self, rows: Query) -> tuple[str, list[Column]]:
        alias = self._alias()
        return f"{rows.text} AS {alias}", [(f"{alias}.{name}", domain) for name, domain in rows.columns]

    # --- what is asked of them

    def _select(self, depth: int) -> Query:
        if depth and self._is(0.1):
            one, two = self._select(depth - 1), self._select(depth - 1)
            if [domain for _, domain in one.columns] == [domain for _, domain in two.columns]:
                every = self._is(0.5)
                text = f"{one.text} UNION {'ALL ' if every else ''}{two.text}"
                return Query(text, one.columns, changes=not every or one.changes or two.changes)
        rows = self._from(depth)
        conditions = [
            self._condition(rows.columns, depth) for _ in range(self._random.choice((0, 0, 1, 1, 2)))
        ]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        changes = rows.changes or any("(SELECT" in condition for condition in conditions)
        below = Query(f"{rows.text}{where}", rows.columns, changes)
        chance = self._random.random()
        if chance < 0.4:
            return self._grouped(below)
        if chance < 0.55:
            return self._ranked(below)
        items, columns = self._items(below)
        if chance < 0.65:
            return Query(f"SELECT DISTINCT {items} FROM {below.text}", columns, changes=True)
        return Query(f"SELECT {items} FROM {below.text}", columns, changes)

    def _items(self, rows: Query) -> tuple[str, list[Column]]:
        expressions = [self._expression(rows.columns) for _ in range(self._random.choice((1, 2, 3)))]
        text = ", ".join(f"{expression} AS c{place}" for place, (expression, _) in enumerate(expressions))
        return text, [(f"c{place}", domain) for place, (_, domain) in enumerate(expressions)]

    def _grouped(self, rows: Query) -> Query:
        keys = list(
            dict.fromkeys(self._expression(rows.columns) for _ in range(self._random.choice((1, 1, 2))))
        )
        items = [f"{expression} AS g{place}" for place, (expression, _) in enumerate(keys)]
        columns = [(f"g{place}", domain) for place, (_, domain) in enumerate(keys)]
        for place in range(self._random.choice((1, 2, 3))):
            call, domain = self._aggregate(rows.columns)
            items.append(f"{call} AS m{place}")
            columns.append((f"m{place}", domain))
        having = " HAVING COUNT(*) > 1" if self._is(0.3) else ""
        grouped = ", ".join(expression for expression, _ in keys)
        text = f"SELECT {', '.join(items)} FROM {rows.text} GROUP BY {grouped}{having}"
        return Query(text, columns, changes=True)

    def _aggregate(self, known: list[Column]) -> tuple[str, str]:
        column, domain = self._random.choice(known)
        number = self._any_of(known, "number")
        calls = [
            ("COUNT(*)", "number"),
            (f"COUNT({column})", "number"),
            (f"COUNT(DISTINCT {column})", "number"),
        ]
        calls += [(f"MIN({column})", domain), (f"MAX({column})", domain)]
        calls += [(f"SUM({number})", "number")] if number else []
        call, kind = self._random.choice(calls)
        only = f" FILTER (WHERE {number} > {self._random.randrange(20)})" if number and self._is(0.25) else ""
        return f"{call}{only}", kind

    def _ranked(self, rows: Query) -> Query:
        """ROW_NUMBER is ordered by all columns, so that only equal rows may change places."""
        items, columns = self._items(rows)
        partition, _ = self._random.choice(rows.columns)
        named = [name for name, _ in rows.columns]
        function = self._random.choice(["ROW_NUMBER", "ROW_NUMBER", "RANK", "DENSE_RANK"])
        order = dict.fromkeys([self._random.choice(named), *(named if function == "ROW_NUMBER" else ())])
        by = ", ".join(f"{name} {self._one_of(f'ASC {_FIRST}', f'DESC {_LAST}')}" for name in order)
        number = f"{function}() OVER (PARTITION BY {partition} ORDER BY {by}) AS place"
        shown = [*columns, ("place", "number")] if self._is(0.5) else columns
        text = (
            f"SELECT {', '.join(name for name, _ in shown)} FROM (SELECT {items}, {number} FROM {rows.text}) AS {self._alias()} "
            f"WHERE place {self._one_of('= 1', '<= 2', '<= 3')}"
        )
        return Query(text, shown, changes=True)

    # --- expressions

    def _any_of(self, known: list[Column], domain: str) -> str | None:
        matching = [name for name, of in known if of == domain]
        return self._random.choice(matching) if matching else None

    def _expression(self, known: list[Column]) -> Column:
        name, domain = self._random.choice(known)
        if domain in ("number", "time") and self._is(0.3):
            return (
                f"CASE WHEN {name} > 10 THEN 'more' WHEN {name} IS NULL THEN 'none' ELSE 'less' END",
                "text",
            )
        if domain == "number" and self._is(0.2):
            return f"COALESCE({name}, -1)", domain
        if domain in ("id", "key", "text") and self._is(0.2):
            return f"UPPER({name}) || '!'", "text"
        return name, domain

    def _condition(self, known: list[Column], depth: int) -> str:
        name, domain = self._random.choice(known)
        number, chance = self._any_of(known, "number"), self._random.random()
        if chance < 0.4:
            among = self._rows(depth - 1, changes=True)
            name_within = self._any_of(among.columns, domain)
            if name_within and domain != "text":
                rows, _ = self._named(among)
                alias = f"a{self._sources}"
                if chance < 0.2:
                    return f"{name} IN (SELECT {alias}.{name_within} FROM {rows})"
                return f"{self._one_of('', 'NOT ')}EXISTS (SELECT 1 FROM {rows} WHERE {alias}.{name_within} = {name})"
        if number and chance < 0.7:
            return f"{number} {self._one_of('<', '>', '<>', '>=')} {self._random.randrange(20)}"
        return f"{name} IS {self._one_of('NOT ', 'NOT ', '')}NULL"
