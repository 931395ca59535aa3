"""Queries of all kinds in one pool on a cluster: those of `tests.faults.workload`, a GROUP BY, a Top-N, and a copy of generated rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from harness.kafka import KafkaClient
from headrace.testing.door import RestDoor
from tests.faults.workload import GROUPS, ONCE, PARTITIONS, SOURCE, Compared, SteadyProducer, Workload

PLACES = 2
CHANGELOGS = {
    "totals": f"SELECT g, COUNT(*) AS count, SUM(n) AS total FROM numbers {SOURCE} GROUP BY g",
    "top": "SELECT g, n, place FROM (SELECT g, n, ROW_NUMBER() OVER (PARTITION BY g ORDER BY n DESC) AS place "
    f"FROM numbers {SOURCE}) AS x WHERE place <= {PLACES}",
}
GENERATED_PER_SECOND = 20
RECORDS_PER_SECOND = 100


class ClusterWorkload(Workload):
    """Six queries into Kafka, exactly once: a filter, windows, a join of windows, a GROUP BY, a Top-N, and a copy of generated rows.

    A changelog replaces rows, so that a row that is written twice shows only in the order: each number must be larger than the one
    before it.
    """

    def __init__(self, kafka: KafkaClient, door: RestDoor, name: str) -> None:
        super().__init__(kafka, door, name, with_view=False)
        # Some faults take minutes, and all records are read again at each look.
        self.producer = SteadyProducer(kafka.bootstrap, f"numbers_{name}", per_second=RECORDS_PER_SECOND)

    @property
    def queries(self) -> list[str]:
        return [
            f"{relation}_{self._name}" for relation in ("once", "windows", "last", "totals", "top", "made")
        ]

    def start(self) -> None:
        super().start()
        for relation, select in CHANGELOGS.items():
            self._door.execute(
                f"CREATE CHANGELOG {relation} WITH ('topic' = '{relation}_{self._name}', {ONCE}) AS {select} "
                f"QUERY WITH ('query.name' = '{relation}_{self._name}');"
            )
        self._door.execute(
            f"""
            CREATE STORE generator WITH ('type' = GENERATOR);
            CREATE STREAM rows_from_seeds (id BIGINT) WITH ('store' = 'generator', 'generator.splits' = {PARTITIONS},
                'generator.rows.per.second' = {GENERATED_PER_SECOND}, 'generator.columns.id' = 'sequence(0)');
            CREATE STREAM made WITH ('topic' = 'made_{self._name}', 'topic.partitions' = {PARTITIONS}, 'topic.replicas' = 1, {ONCE}) AS
                SELECT id FROM rows_from_seeds {SOURCE} QUERY WITH ('query.name' = 'made_{self._name}');
            """
        )

    def compared(self) -> list[Compared]:
        kinds = [("totals", *self._totals()), ("top", *self._top()), ("generated", *self._generated())]
        return [*super().compared(), *kinds]

    def _totals(self) -> tuple[Counter[object], Counter[object]]:
        groups = {g: range(g, self.producer.count, GROUPS) for g in range(GROUPS)}
        last: dict[int, tuple[int, int]] = {}
        repeated: Counter[object] = Counter()
        for row in self._rows("totals"):
            if row["count"] <= last.get(row["g"], (0, 0))[0]:
                repeated["again", row["g"], row["count"]] += 1
            last[row["g"]] = row["count"], row["total"]
        expected = Counter[object]((g, len(of), sum(of)) for g, of in groups.items() if of)
        return expected, Counter((g, *row) for g, row in last.items()) + repeated

    def _top(self) -> tuple[Counter[object], Counter[object]]:
        groups = {g: range(g, self.producer.count, GROUPS) for g in range(GROUPS)}
        last: dict[tuple[int, int], int] = {}
        repeated: Counter[object] = Counter()
        for row in self._rows("top"):
            key = row["g"], row["place"]
            if row["n"] <= last.get(key, -1):
                repeated["again", *key, row["n"]] += 1
            last[key] = row["n"]
        expected = Counter[object](
            (g, place, n) for g, of in groups.items() for place, n in enumerate(reversed(of[-PLACES:]), 1)
        )
        return expected, Counter((*key, n) for key, n in last.items()) + repeated

    def _generated(self) -> tuple[Counter[object], Counter[object]]:
        """Rows follow without end: each split must have all rows up to its last."""
        seen = Counter[object](row["id"] for row in self._rows("made"))
        expected: Counter[object] = Counter()
        for split in range(PARTITIONS):
            last = max(
                (number for number in seen if isinstance(number, int) and number % PARTITIONS == split),
                default=-1,
            )
            expected.update(range(split, last + 1, PARTITIONS))
        return expected or Counter(["a generated row"]), seen

    def _rows(self, relation: str) -> Iterator[dict[str, int]]:
        for _, value in self._kafka.consume(f"{relation}_{self._name}"):
            if value is not None:
                yield json.loads(value)
