"""An application in words: the text of EXPLAIN, and the JSON of DESCRIBE <statement>."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from headrace.catalog.objects import Relation
from headrace.core.names import VIRTUAL_DATABASE, printed
from headrace.core.wording import counted
from headrace.planner import physical
from headrace.planner.application import Part, sharing
from headrace.planner.explain import RelationFact, explain


def explain_application(
    name: str, parts: Sequence[Part], plan: physical.SparkPlan, virtual: Sequence[Relation]
) -> str:
    """Return the shared sources first, then each query as EXPLAIN shows it."""
    return "\n".join(_lines(name, parts, plan, virtual))


def _lines(
    name: str, parts: Sequence[Part], plan: physical.SparkPlan, virtual: Sequence[Relation]
) -> Iterator[str]:
    queries = counted(len(parts), "query", "queries")
    yield f"Application {printed(name)}: {queries}, run as {counted(len(plan.parts()), 'Spark query', 'Spark queries')}"
    for shared_scan in sharing(parts):
        readers = ", ".join(str(parts[number].sink.relation) for number in shared_scan.parts)
        yield f"Read once: {shared_scan.scan.relation.name}, for what is written into {readers}"
    for relation in virtual:
        yield f"Virtual: {relation.kind.value} {relation.name}, which is part of each query that reads it"
    for part, sink in zip(parts, plan.sinks, strict=True):
        own = plan.model_copy(update={"steps": plan.under(sink.id)})
        yield ""
        yield from explain(part.logical, own, part.sink).splitlines()


@dataclass(frozen=True)
class ApplicationStatement:
    """A statement of an application for DESCRIBE: its text, the object it creates, and the names of its query's sink and sources."""

    text: str
    ddl: RelationFact | None
    sink: RelationFact | None
    sources: tuple[RelationFact, ...]


def describe_application(
    statements: Sequence[ApplicationStatement], organization_id: str | None
) -> tuple[str, str]:
    """Return the row of DESCRIBE <statement>: kind and plan as JSON text as the Pulumi provider reads it.

    `ddls` holds virtual relations too and marks them; `sources` and `sinks` hold relations of stores and views only.
    """

    def each(facts: Iterable[RelationFact | None]) -> list[dict[str, object]]:
        return [
            {**fact.plan_entry(organization_id), "is_virtual": False}
            for fact in dict.fromkeys(facts)
            if fact is not None and fact.database != VIRTUAL_DATABASE
        ]

    plan: dict[str, object] = {
        "ddls": [
            {**item.ddl.plan_entry(None), "is_virtual": item.ddl.database == VIRTUAL_DATABASE}
            for item in statements
            if item.ddl is not None
        ],
        "statements": [item.text for item in statements],
        "sources": each(fact for item in statements for fact in item.sources),
        "sinks": each(item.sink for item in statements),
    }
    return "APPLICATION", json.dumps(plan)
