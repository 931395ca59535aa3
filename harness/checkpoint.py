"""A checkpoint as Spark lays it out, written by hand, for tests below Spark."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path


def write_checkpoint(folder: Path, *, batches: int, planned: int = 0, snapshot: int = 2) -> None:
    """Write the checkpoint of a query with one stateful operator of one partition that has finished so many batches and planned more.

    The state has a snapshot of one version and the changes of all versions after it; that of the last planned batch too, as if the batch
    had been interrupted at its end.
    """
    for log, count in (("offsets", batches + planned), ("commits", batches)):
        (folder / log).mkdir(parents=True)
        for batch in range(count):
            facts = {"batch": batch, "conf": {"spark.sql.shuffle.partitions": "1"}}
            (folder / log / str(batch)).write_text(f"v1\n{json.dumps(facts)}")
    (folder / "metadata").write_text('{"id": "5b5d6294-cab4-46b6-b1c4-8a4e090df831"}')
    (folder / "watermark").write_text('{"version": 1, "partitions": []}')
    (folder / "identities.json").write_text(json.dumps({"s1": {"orders": "a"}, "s9": {"sales": "b"}}))
    (folder / "clickhouse").mkdir()
    (folder / "clickhouse" / "left.parquet").write_text("rows of a batch that is being written")
    store = folder / "state" / "0" / "0"
    (store / "SSTs").mkdir(parents=True)
    for version in range(1, batches + planned + 1):
        (store / f"{version}.changelog").write_text(f"changes {version}")
    for name in ("000008-a.sst", "000009-b.sst"):
        (store / "SSTs" / name).write_text(name)
    with zipfile.ZipFile(store / f"{snapshot}.zip", "w") as archive:
        files = [{"localFileName": "000008.sst", "dfsSstFileName": "000008-a.sst", "sizeBytes": 12}]
        archive.writestr("metadata", f"v1\n{json.dumps({'sstFiles': files})}")
    metadata = folder / "state" / "0" / "_metadata" / "v2"
    metadata.mkdir(parents=True)
    schema = f"file:{folder}/state/0/_stateSchema/default/0_29d7"
    (metadata / "0").write_text(f'v2\n{{"stateSchemaFilePaths":["{schema}"]}}')
    (folder / "state" / "0" / "_stateSchema" / "default").mkdir(parents=True)
    (folder / "state" / "0" / "_stateSchema" / "default" / "0_29d7").write_text("schema")
