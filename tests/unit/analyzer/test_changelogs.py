"""TO_CHANGELOG and FROM_CHANGELOG: columns, keys, change modes, and mistakes.

The relations are those of `tests/plans/world.py`.
"""

from __future__ import annotations

import pytest

from headrace.core.errors import UserError
from headrace.planner import physical
from headrace.planner.plan import state_warning
from headrace.sql import parse
from tests.plans.world import bound, planned, sink_of

CODES = "op => DESCRIPTOR(carrier), op_mapping => MAP['c, r', 'INSERT', 'u', 'UPDATE_AFTER', 'd', 'DELETE']"


def steps(
    text: str, kind: type[physical.Normalize | physical.Materialize | physical.ChangelogAggregate]
) -> list[physical.Step]:
    """The steps of one kind in the plan of a statement."""
    return [step for step in planned(text).steps if isinstance(step, kind)]


@pytest.mark.parametrize(
    ("call", "columns"),
    [
        ("TO_CHANGELOG(input => TABLE planes)", ["op", "tailnum", "maker", "seats", "built"]),
        ("TABLE(TO_CHANGELOG(TABLE routes PARTITION BY (dest), DESCRIPTOR(change))) AS c", ["dest", "change", "origin", "miles"]),
        ("TO_CHANGELOG((SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier))", ["op", "carrier", "n"]),
        ("TO_CHANGELOG(arrivals, op_mapping => MAP['INSERT', 'new'])", ["op", "carrier", "distance", "note"]),
        ("FROM_CHANGELOG(TABLE arrivals PARTITION BY note, op => DESCRIPTOR(carrier))", ["note", "distance"]),
    ],
)  # fmt: skip
def test_the_key_is_first_and_the_operation_comes_and_goes(call: str, columns: list[str]) -> None:
    text = f"SELECT * FROM {call}"
    plan = bound(text)
    assert list(plan.schema.names) == columns
    assert plan.kind.value == ("stream" if "TO_" in call else "changelog")
    [statement] = parse(text)
    [again] = parse(statement.sql())
    assert again == statement


def test_the_changes_of_a_changelog_are_found_by_its_key() -> None:
    [normalize] = steps("CREATE STREAM s AS SELECT * FROM TO_CHANGELOG(planes)", physical.Normalize)
    assert isinstance(normalize, physical.Normalize)
    assert (normalize.keys, normalize.kinds, normalize.sequence is not None) == (["tailnum"], True, True)
    grouped = "CREATE STREAM s AS SELECT * FROM TO_CHANGELOG((SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier))"
    # Spark's own groups would update rows that a Normalize has read.
    assert planned(grouped).output_mode == "append"
    [groups] = steps(grouped, physical.ChangelogAggregate)
    assert isinstance(groups, physical.ChangelogAggregate)
    assert groups.output == "upsert"
    assert "TO_CHANGELOG" in (state_warning(*sink_of(grouped)) or "")


def test_rows_that_are_only_added_need_no_state() -> None:
    assert state_warning(*sink_of("CREATE STREAM s AS SELECT * FROM TO_CHANGELOG(arrivals)")) is None


def test_changes_with_old_rows_are_signed_and_others_replace_the_row_of_their_key() -> None:
    signed = "CREATE CHANGELOG c AS SELECT * FROM FROM_CHANGELOG(TABLE flights PARTITION BY tailnum, op => DESCRIPTOR(carrier))"
    assert [step.id for step in steps(signed, physical.Materialize)] == ["materialized"]
    upserts = (
        f"CREATE CHANGELOG c AS SELECT * FROM FROM_CHANGELOG(TABLE flights PARTITION BY tailnum, {CODES})"
    )
    assert bound(upserts.partition(" AS ")[2]).schema.primary_key == ("tailnum",)
    assert steps(upserts, physical.Materialize) == []
    [records] = [step for step in planned(upserts).steps if isinstance(step, physical.EncodeRows)]
    assert records.deleted is not None


@pytest.mark.parametrize(
    ("call", "state", "message"),
    [
        ("TO_CHANGELOG(carriers)", "0A000", "requires a stream or a changelog"),
        ("TO_CHANGELOG(planes, op => DESCRIPTOR(maker))", "42P16", "have a column maker already"),
        ("TO_CHANGELOG(planes PARTITION BY pilot)", "42703", "pilot"),
        ("TO_CHANGELOG(planes, op_mapping => MAP['CHANGE', 'c'])", "42601", "no change 'CHANGE'"),
        ("TO_CHANGELOG(planes, op_mapping => MAP['INSERT'])", "42601", "the value of the last key"),
        ("TO_CHANGELOG(planes, uid => 'x')", "42601", "op => DESCRIPTOR(column)"),
        ("FROM_CHANGELOG(planes, op => DESCRIPTOR(maker))", "0A000", "takes a STREAM"),
        ("FROM_CHANGELOG(flights)", "42703", "op"),
        ("FROM_CHANGELOG(flights, op => DESCRIPTOR(distance))", "42804", "must be a VARCHAR"),
        (f"FROM_CHANGELOG(flights, {CODES})", "0A000", "names its old row by a key"),
        ("TO_CHANGELOG(planes) MATCH_RECOGNIZE (ORDER BY x MEASURES a.x AS x PATTERN (a))", "0A000", "over TO_CHANGELOG"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_and_placed(call: str, state: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        bound(f"SELECT * FROM {call}")
    assert (caught.value.state.value, caught.value.span is None) == (state, False)
    assert message in str(caught.value)


def test_a_changelog_without_a_key_is_refused() -> None:
    keyless = "(SELECT a.tailnum FROM planes AS a JOIN flights AS f ON a.maker = f.note)"
    with pytest.raises(UserError) as caught:
        planned(f"CREATE STREAM s AS SELECT * FROM TO_CHANGELOG({keyless})")
    assert caught.value.state.value == "42P16"
