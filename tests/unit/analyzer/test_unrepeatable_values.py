"""Values that differ at each evaluation, in updated and deleted rows: refused, unless a key identifies the rows.

The relations are those of `tests/plans/world.py`: flights is a stream, planes and airports are changelogs.
"""

from __future__ import annotations

import pytest

from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from tests.plans.world import planned

COUNTS = "SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier"
REFUSED = [
    "SELECT p.maker, NOW() AS at FROM planes p JOIN airports a ON p.maker = a.city",
    "SELECT tailnum FROM planes WHERE RAND() < 0.5",
    "SELECT CAST(RAND() * 2 AS INT) AS half, COUNT(*) AS n FROM planes GROUP BY CAST(RAND() * 2 AS INT)",
    "SELECT maker, MAX(UUID()) AS x FROM planes GROUP BY maker",
    "SELECT maker, NOW() AS at FROM planes",
    f"SELECT at, COUNT(*) AS m FROM (SELECT n, NOW() AS at FROM ({COUNTS})) GROUP BY at",
    "SELECT at, COUNT(*) AS m FROM (SELECT carrier, COUNT(*) AS n, NOW() AS at FROM flights GROUP BY carrier) GROUP BY at",
    "SELECT carrier FROM flights GROUP BY carrier HAVING COUNT(*) > 10 * RAND()",
    "SELECT tailnum, maker FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY maker ORDER BY RAND()) AS n FROM planes) WHERE n <= 3",
    "SELECT p.maker FROM planes p JOIN airports a ON p.maker = a.city AND RAND() < 0.5",
    "SELECT UUID() AS id FROM (SELECT maker FROM planes) UNION ALL SELECT city AS id FROM airports",
]
ALLOWED = [
    "SELECT carrier, NOW() AS at, UUID() AS id FROM flights WHERE RAND() < 0.5",
    "SELECT CAST(RAND() * 2 AS INT) AS half, COUNT(*) AS n FROM flights GROUP BY CAST(RAND() * 2 AS INT)",
    "SELECT carrier, SUM(RAND()) AS s FROM flights GROUP BY carrier",
    "SELECT at, COUNT(*) AS n FROM (SELECT DATE_FORMAT(NOW(), 'HH') AS at FROM flights) GROUP BY at",
    # A key finds the row, whatever its other values are.
    "SELECT tailnum, maker, NOW() AS at FROM planes",
    "SELECT carrier, COUNT(*) AS n, NOW() AS at FROM flights GROUP BY carrier",
    "SELECT tailnum, at FROM (SELECT tailnum, NOW() AS at FROM planes)",
    "SELECT window_start, window_end, NOW() AS at FROM TUMBLE(flights, SIZE 1 HOUR) GROUP BY window_start, window_end",
]


@pytest.mark.parametrize("query", REFUSED)
def test_it_is_refused_where_a_row_is_taken_back_by_its_values(query: str) -> None:
    with pytest.raises(
        UserError, match="another value each time, and these rows are updated and deleted"
    ) as refusal:
        planned(query)
    assert refusal.value.state is SqlState.FEATURE_NOT_SUPPORTED
    assert refusal.value.span is not None
    assert refusal.value.hint


@pytest.mark.parametrize("query", ALLOWED)
def test_it_is_allowed_where_it_is_computed_once_or_a_key_finds_the_row(query: str) -> None:
    planned(query)
