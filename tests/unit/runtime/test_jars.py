from __future__ import annotations

import gc
import hashlib
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from headrace.core.errors import ExternalError, InternalError
from headrace.core.sqlstate import SqlState
from headrace.runtime.extension import spark_class_path
from headrace.runtime.jars import (
    ICEBERG,
    S3_CHECKPOINTS,
    Coordinate,
    coordinates,
    fetch,
    jars,
    locked_groups,
    missing,
    parse_lock,
)

# jgo leaves the connection of each answer to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


class _QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the test reads no log."""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a Maven repository that is served over HTTP, with an empty cache beside it."""
    folder = tmp_path / "repository"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_QuietHandler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    monkeypatch.setenv("HEADRACE_MAVEN_REPOSITORY", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "cache"))
    yield folder
    gc.collect()
    server.shutdown()
    thread.join()
    server.server_close()


def _publish(repository: Path, content: bytes) -> Coordinate:
    """A jar with that content in the repository, locked with its right digest."""
    coordinate = Coordinate("io.example", "gadget", "1.0", hashlib.sha512(content).hexdigest())
    folder = repository / "io" / "example" / "gadget" / "1.0"
    folder.mkdir(parents=True)
    (folder / coordinate.file_name).write_bytes(content)
    return coordinate


def test_a_jar_that_is_the_locked_one_arrives_in_the_cache(repository: Path) -> None:
    coordinate = _publish(repository, b"the jar")
    fetch([coordinate])
    assert coordinate.path.read_bytes() == b"the jar"
    assert [path.name for path in coordinate.path.parent.iterdir()] == ["gadget-1.0.jar"]


def test_a_jar_that_is_not_the_locked_one_is_refused_and_not_kept(repository: Path) -> None:
    published = _publish(repository, b"another jar")
    locked = Coordinate("io.example", "gadget", "1.0", hashlib.sha512(b"the jar").hexdigest())
    with pytest.raises(ExternalError) as caught:
        fetch([locked])
    assert "does not match jars.lock" in caught.value.message
    assert published.sha512[:16] in caught.value.message
    assert not locked.path.exists()


def test_a_jar_with_a_classifier_has_it_in_its_name() -> None:
    coordinate = Coordinate.of("io.example:gadget:1.0:tests")
    assert coordinate is not None
    assert (str(coordinate), coordinate.file_name) == ("io.example:gadget:1.0:tests", "gadget-1.0-tests.jar")


@pytest.mark.usefixtures("repository")
def test_a_jar_that_cannot_be_fetched_is_named_with_what_to_do() -> None:
    absent = Coordinate("io.example", "absent", "2.0", "0" * 128)
    with pytest.raises(ExternalError) as caught:
        fetch([absent])
    assert caught.value.state is SqlState.REMOTE_UNAVAILABLE
    assert "io.example:absent:2.0" in caught.value.message
    assert caught.value.hint is not None
    assert "HEADRACE_MAVEN_REPOSITORY" in caught.value.hint
    assert "absent-2.0.jar" in caught.value.hint


def test_a_jar_in_the_cache_counts_as_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path))
    spark_jars = coordinates("spark")
    assert missing("spark") == list(spark_jars)
    spark_jars[0].path.parent.mkdir(parents=True)
    spark_jars[0].path.touch()
    assert missing("spark") == list(spark_jars[1:])


def test_the_lock_has_the_groups_that_the_product_uses() -> None:
    assert set(locked_groups()) == {
        "spark",
        "kafka-broker",
        "functions",
        "java-compiler",
        "iceberg",
        "s3-checkpoints",
        "jvm-test",
        "flink-peer",
        "iceberg-catalog",
        "s3-mock",
        "databricks-warehouse",
        "debezium",
        "jdbc",
    }
    assert len(coordinates("kafka-broker")) == 46


def test_no_two_locked_jars_share_a_file_name() -> None:
    every = {coordinate for group in locked_groups().values() for coordinate in group}
    assert len({coordinate.file_name for coordinate in every}) == len(every)


def _classes(jar: Path) -> set[str]:
    names = zipfile.ZipFile(jar).namelist()
    return {name for name in names if name.endswith(".class") and "-info" not in name and name[:4] != "META"}


def test_no_class_of_a_store_types_jars_is_another_on_the_class_path_of_spark() -> None:
    spark = set().union(*map(_classes, spark_class_path()))
    both = spark & set().union(*map(_classes, jars(ICEBERG)))
    # Spark's comes first, for all of these: of JTS, Iceberg has the same.
    assert {name.rpartition("/")[0].split("/jts")[0] for name in both} == {"org/locationtech"}


def test_the_jars_of_checkpoints_are_not_on_the_class_path_of_spark_and_are_of_the_version_that_iceberg_has() -> (
    None
):
    spark = set().union(*map(_classes, spark_class_path()))
    assert not spark & set().union(*map(_classes, jars(S3_CHECKPOINTS)))
    ours, others = (
        {c.artifact: c.version for c in coordinates(group)} for group in (S3_CHECKPOINTS, ICEBERG)
    )
    assert {name: others[name] for name in ours.keys() & others.keys()} == {
        name: ours[name] for name in ours.keys() & others.keys()
    }


def test_an_unknown_group_names_the_known_ones() -> None:
    with pytest.raises(InternalError, match="kafka-broker"):
        coordinates("flink")


@pytest.mark.parametrize(
    "line",
    ["io.example:gadget:1.0", "io.example:gadget " + "0" * 128, "io.example:gadget:1.0 abc"],
    ids=["no digest", "no version", "short digest"],
)
def test_a_broken_line_of_the_lock_is_named_by_its_number(line: str) -> None:
    with pytest.raises(InternalError, match="line 2") as caught:
        parse_lock(f"[spark]\n{line}\n")
    assert caught.value.hint is not None
    assert "lock_jars" in caught.value.hint
