"""Data that the removal of snapshots must leave to queries."""

from pathlib import Path

from headrace.connectors.iceberg.spark.maintenance import read_snapshots, writers
from headrace.connectors.streaming import OptimizeRequest


def test_each_incarnation_of_a_query_keeps_its_snapshots_in_the_folders_of_all_pools(tmp_path: Path) -> None:
    def checkpoint(name: str, *snapshots: int) -> Path:
        offsets = tmp_path / name / "offsets"
        offsets.mkdir(parents=True)
        for batch, snapshot in enumerate(snapshots):
            (offsets / str(batch)).write_text(f'v1\n{{}}\n{{"snapshot_id":{snapshot}}}')
        return offsets.parent

    checkpoint("own/q", 1, 2, 3)
    anew = checkpoint("shared/q.2", 4)
    (anew / "writer").write_text("v2")
    checkpoint("shared/interactive-7", 5)
    checkpoint("own/ended", 6)
    request = OptimizeRequest(("s", "t"), {}, ("q",), (tmp_path / "own", tmp_path / "shared"))
    assert read_snapshots(request) == {"2", "3", "4", "5"}
    assert writers(request) == {"q", "q-v2"}
