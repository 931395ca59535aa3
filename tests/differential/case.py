"""A case: a query in the dialect and in Flink's SQL; see `cases`."""

from __future__ import annotations

from dataclasses import dataclass

from tests.differential.relations import END

LIVE = f"k <> '{END}'"


@dataclass(frozen=True)
class Case:
    """`select` is what follows CREATE … AS; `flink` the same in Flink's SQL, where it is written otherwise.

    With `key` the result is a changelog, and its last state by key is compared; without, all rows as a multiset.
    `documented` is the heading in docs/differences-from-flink.md that says why the two differ.
    """

    name: str
    select: str
    flink: str = ""
    key: str = ""
    documented: str = ""

    def headrace(self, topic: str) -> str:
        """The statement."""
        kind = "CHANGELOG" if self.key else "STREAM"
        return (
            f"CREATE {kind} q_{self.name} WITH ('topic' = '{topic}', 'value.format' = JSON) AS {self.select};"
        )

    @property
    def flink_select(self) -> str:
        """The SELECT for Flink's INSERT INTO."""
        return self.flink or self.select
