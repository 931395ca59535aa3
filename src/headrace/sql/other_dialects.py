"""What people write in queries who know another dialect, and what there is in its place: hints for errors, nothing else.

Whole statements are in `catalogue`.
"""

from __future__ import annotations

from headrace.sql.ast import TIME_WINDOWS

_GROUPINGS = "Write a query for each grouping, with UNION ALL between them."
_ARRIVAL = "Read the source WITH ('source.time' = ARRIVAL)."

CLAUSES = (
    (
        ("FOR", "SYSTEM_TIME"),
        "Leave it out: a stream's row is joined with what a changelog was at the row's time.",
    ),
    (
        ("QUALIFY",),
        "Filter in a query around it: SELECT … FROM (SELECT …, ROW_NUMBER() OVER (…) AS n FROM …) WHERE n <= 3.",
    ),
    (("TABLESAMPLE",), "Write WHERE RAND() < 0.1."),
    (("FETCH", "FIRST"), "Write LIMIT n."),
    (("FETCH", "NEXT"), "Write LIMIT n."),
    (("NATURAL", "JOIN"), "Write JOIN … USING (column)."),
    (("LEFT", "SEMI"), "Write WHERE EXISTS (SELECT …)."),
    (("LEFT", "ANTI"), "Write WHERE NOT EXISTS (SELECT …)."),
    (("GROUPING", "SETS"), _GROUPINGS),
)
"""The first words of clauses, in places where a clause may begin, and the hint for each."""

FUNCTIONS = {
    **{
        name: f"Write FROM {name}(relation, …) and GROUP BY window_start, window_end."
        for name in TIME_WINDOWS
    },
    **{f"{name}_START": "Use window_start." for name in TIME_WINDOWS},
    **{f"{name}_END": "Use window_end." for name in TIME_WINDOWS},
    **{f"{name}_ROWTIME": "Use window_time." for name in TIME_WINDOWS},
    **{f"{name}_PROCTIME": _ARRIVAL for name in TIME_WINDOWS},
    "PROCTIME": _ARRIVAL,
    "ROLLUP": _GROUPINGS,
    "CUBE": _GROUPINGS,
}
"""Names of functions, in capitals, and the hint for each."""

QUANTIFIERS = ("ALL", "ANY", "SOME")
INSTEAD_OF_QUANTIFIERS = "Use IN or EXISTS, or join with the MIN or MAX of the subquery."
INSTEAD_OF_COLONS = "Write CAST(value AS type)."
