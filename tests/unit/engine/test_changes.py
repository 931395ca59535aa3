"""Operations in a live changelog."""

from __future__ import annotations

from headrace.core.resultset import LiveRows
from headrace.engine.driver.changes import ChangeReader, RowKinds
from headrace.planner.physical import Changes


def kinds_of(kinds: RowKinds, *rows: str) -> list[str | None]:
    """Return the operations of rows written as their key, with a `-` before it for a deletion."""
    per_row = [kinds.of([row.lstrip("-")], deleted=row.startswith("-")) for row in rows]
    return [kind.value if kind else None for kind in per_row]


def changes(**more: bool) -> Changes:
    return Changes(primary_key=["k"], key_columns=["k"], deleted="__headrace_deleted", **more)


def test_a_key_is_inserted_updated_and_deleted() -> None:
    assert kinds_of(RowKinds(changes()), "a", "b", "a", "-a", "a") == ["+I", "+I", "+U", "-D", "+I"]


def test_the_end_of_a_key_that_was_not_shown_is_told_unless_rows_are_left_out() -> None:
    assert kinds_of(RowKinds(changes()), "-a") == ["-D"]
    assert kinds_of(RowKinds(changes(filtered=True)), "-a", "a", "-a", "-a") == [None, "+I", "-D", None]


def test_beyond_what_is_remembered_nothing_is_called_new() -> None:
    kinds = RowKinds(changes(filtered=True), remembered_max=2)
    assert kinds_of(kinds, "a", "b", "c", "c", "-d", "-a", "a") == ["+I", "+I", "+U", "+U", "-D", "-D", "+U"]


def test_final_rows_are_inserts() -> None:
    assert kinds_of(RowKinds(changes(final=True), remembered_max=1), "a", "b", "c") == ["+I", "+I", "+I"]


def test_a_deletion_shows_its_key_alone_and_a_hidden_key_is_not_shown() -> None:
    def encode(row: object) -> list[str | None]:
        return [str(cell) for cell in row]  # type: ignore[attr-defined]

    reader = ChangeReader(["v", "k"], encode, changes())
    assert reader.columns == ["v", "k", "__headrace_deleted"]
    assert reader.read([(1, "a", False), (2, "a", True)]) == LiveRows([["1", "a"], [None, "a"]], ["+I", "-D"])
    unselected = Changes(
        primary_key=[], key_columns=["__headrace_unselected_key"], deleted="__headrace_deleted"
    )
    reader = ChangeReader(["v"], encode, unselected)
    assert reader.columns == ["v", "__headrace_unselected_key", "__headrace_deleted"]
    assert reader.read([(1, "a", False), (2, "a", False)]) == LiveRows([["1"], ["2"]], ["+I", "+U"])
