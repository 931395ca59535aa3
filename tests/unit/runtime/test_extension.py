"""The extension without a JVM; tests/runtime compiles it."""

from __future__ import annotations

import zipfile
from pathlib import Path

from headrace.runtime.extension import _class_name, _pack


def test_the_jar_of_the_same_classes_has_the_same_bytes(tmp_path: Path) -> None:
    archives = []
    for number, order in enumerate((("A", "B"), ("B", "A"))):
        classes = tmp_path / f"classes-{number}" / "io"
        classes.mkdir(parents=True)
        for name in order:
            (classes / f"{name}.class").write_bytes(name.encode())
        archives.append(tmp_path / f"{number}.jar")
        _pack(archives[-1], folders=[classes.parent, tmp_path / "no-resources"])
    assert archives[0].read_bytes() == archives[1].read_bytes()
    assert zipfile.ZipFile(archives[0]).namelist() == ["io/A.class", "io/B.class"]


def test_the_class_of_a_test_source_follows_from_its_folder() -> None:
    source = Path("/a/scala/tree/jvm/src/test/scala/io/headrace/spark/WatermarkSuite.scala")
    assert _class_name(source) == "io.headrace.spark.WatermarkSuite"
