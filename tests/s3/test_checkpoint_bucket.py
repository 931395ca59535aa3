"""The contract of the places of checkpoints, for a local folder and for a bucket, and buckets that cannot keep checkpoints."""

from __future__ import annotations

import json
import time
import uuid
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from botocore.exceptions import ClientError
from pyarrow import parquet

from harness.checkpoint import write_checkpoint
from harness.kinesis import ACCESS_KEY, SECRET_KEY
from harness.s3 import S3Client
from headrace.connectors import checkpoint_bucket as checkpoints
from headrace.connectors.checkpoint_bucket import Login, S3Folder
from headrace.connectors.checkpoint_store import (
    CheckpointStore,
    LocalFolder,
    facts_of,
    has_offsets,
    store_at,
    store_of,
)
from headrace.connectors.iceberg.spark.maintenance import read_snapshots
from headrace.connectors.journal import Journal
from headrace.connectors.marks import WRITER, is_begun, writer_of
from headrace.connectors.streaming import OptimizeRequest
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.sqlstate import SqlState
from headrace.engine.checkpoint_copy import Border, Continuation, border, copy_checkpoint
from headrace.engine.checkpoints import copy_checkpoints
from headrace.engine.savepoints import Savepoints
from tests.unit.engine.test_checkpoint_copy import PLAN

STAND_INS = ("s3", pytest.param("s3_mock", marks=pytest.mark.prove))


@pytest.fixture(params=STAND_INS)
def client(request: pytest.FixtureRequest) -> S3Client:
    stand_in: S3Client = request.getfixturevalue(request.param)
    return stand_in


@pytest.fixture
def bucket(client: S3Client) -> S3Folder:
    return folder_in(client)


@pytest.fixture(params=("folder", *STAND_INS))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> CheckpointStore:
    if request.param == "folder":
        return store_at(str(tmp_path / "checkpoints"))
    folder = folder_in(request.getfixturevalue(request.param))
    return store_at(folder.uri, folder.login)


def folder_in(client: S3Client) -> S3Folder:
    login = Login(client.server.uri, "us-east-1", ACCESS_KEY, SECRET_KEY)
    return S3Folder(login, client.bucket, f"checkpoints-{uuid.uuid4().hex[:8]}")


def test_a_place_of_checkpoints_keeps_files_by_name(store: CheckpointStore) -> None:
    query = store.at("q-1")
    assert not query.exists()
    assert (query.read("identities.json"), query.written_at("offsets/0"), query.names("offsets")) == (
        None,
        None,
        [],
    )
    for name, content in (("identities.json", "{}"), ("offsets/0", "v1"), ("offsets/10", "v1")):
        query.write(name, content)
    query.write("identities.json", '{"ä": 1}')
    assert query.exists()
    assert query.read("identities.json") == '{"ä": 1}'.encode()
    assert sorted(query.names("offsets")) == ["0", "10"]
    assert sorted(query.names("")) == ["identities.json", "offsets"]
    assert store.names("") == ["q-1"]
    assert abs((query.written_at("offsets/10") or 0) - time.time()) < 60
    query.write("files/0.json", b"\x00\xff")
    assert query.read("files/0.json") == b"\x00\xff"
    query.delete("files/0.json")
    query.delete("files/0.json")
    assert (query.read("files/0.json"), query.names("files")) == (None, [])
    # The names of other queries may begin with the name of this one.
    store.at("q-10").write("offsets/0", "v1")
    query.remove()
    query.remove()
    assert (query.exists(), store.names("")) == (False, ["q-10"])


def test_a_checkpoint_is_read_and_written_by_folders_on_this_machine(
    store: CheckpointStore, tmp_path: Path
) -> None:
    content = {"metadata": b"{}", "state/0/0/SSTs/8.sst": bytes(range(256)) * 300, "offsets/0": b"v1"}
    with store.at("q").writing(tmp_path / "beside") as folder:
        for name, data in content.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
    assert store.at("q").names("offsets") == ["0"]
    with store.at("q").reading(tmp_path / "beside") as folder:
        assert {name: (folder / name).read_bytes() for name in content} == content
    with pytest.raises(ZeroDivisionError), store.at("p").writing(tmp_path / "beside") as folder:  # noqa: PT012
        folder.mkdir(exist_ok=True)
        (folder / "metadata").write_text("{}")
        raise ZeroDivisionError
    assert not store.at("p").exists()
    assert list((tmp_path / "beside").glob("*")) == []


def test_a_query_moves_to_any_place_and_another_continues_from_a_savepoint_there(
    store: CheckpointStore, tmp_path: Path
) -> None:
    origin = LocalFolder(tmp_path / "origin")
    write_checkpoint(tmp_path / "origin" / "q-1", batches=4, planned=1)
    copy_checkpoints(["q-1"], origin, store, tmp_path / "beside")
    assert border(store.at("q-1")) == Border(3, is_interrupted=True)
    assert _schema(store.at("q-1")) == _address(store.at("q-1"))

    def copy(target: Path) -> Border:
        with store.at("q-1").reading(target.parent) as checkpoint:
            copy_checkpoint(checkpoint, target, 3, PLAN)
        return Border(3, is_interrupted=False)

    buckets = [store] if isinstance(store, S3Folder) else []
    Savepoints(tmp_path / "lost", lambda: buckets).take("s", {}, copy, *buckets)
    folder = "savepoints" if buckets else "lost"
    savepoints = Savepoints(tmp_path / folder, lambda: buckets)
    assert savepoints.restore("s", store.at("q-2"), Continuation({(): ()})).batch == 3
    assert border(store.at("q-2")) == Border(3, is_interrupted=False)
    assert _schema(store.at("q-2")) == _address(store.at("q-2"))
    assert store.at("q-2").read("state/0/0/SSTs/000008-a.sst") == b"000008-a.sst"
    savepoints.remove("s")
    assert sorted(store.names("")) == ["q-1", "q-2"]
    with pytest.raises(UserError, match="no complete savepoint"):
        savepoints.manifest("s")


def _schema(checkpoint: CheckpointStore) -> str:
    described = (checkpoint.read("state/0/_metadata/v2/0") or b"").splitlines()[1]
    (path,) = json.loads(described)["stateSchemaFilePaths"]
    return str(path)


def _address(checkpoint: CheckpointStore) -> str:
    return f"{'' if isinstance(checkpoint, S3Folder) else 'file:'}{checkpoint.uri}/state/0/_stateSchema/default/0_29d7"


def test_the_marks_of_a_query_are_read_from_any_place(store: CheckpointStore) -> None:
    assert (writer_of("q", store), is_begun(store), has_offsets(store)) == ("q", False, False)
    store.write(WRITER, "v2")
    store.write("offsets/0", "v1")
    store.write("commits/0", "v1")
    assert (writer_of("q", store), is_begun(store), has_offsets(store)) == ("q-v2", True, True)


def test_another_process_gets_a_place_with_its_key_as_texts(store: CheckpointStore) -> None:
    facts = json.loads(json.dumps(facts_of(store.at("q-1"))))
    assert store_of(facts) == store.at("q-1")
    assert (SECRET_KEY in facts.values()) == isinstance(store, S3Folder)
    assert SECRET_KEY not in repr(store)


def test_files_of_a_batch_are_sent_once_wherever_the_journal_is(store: CheckpointStore) -> None:
    """Each `with` is a driver, on a machine of its own if the place is a bucket."""
    place = store.at("q-1", "clickhouse")

    def written(journal: Journal, epoch: int, *counts: int) -> None:
        folder = journal.begin(epoch)
        folder.mkdir()
        for number, count in enumerate(counts):
            parquet.write_table(pa.table({"n": range(count)}), folder / f"part-{number}.parquet")

    with ExitStack() as resources:
        journal = Journal(place, resources)
        assert (journal.version, journal.contains(0), list(journal.left())) == (None, False, [])
        written(journal, 0, 3, 0, 5)
    with ExitStack() as resources:
        journal = Journal(place, resources)
        assert not journal.contains(0)  # the driver died before all files were there
        written(journal, 0, 3, 0, 5)
        journal.complete(0, 7)
        first, _ = journal.left()
        journal.sent(first)
    with ExitStack() as resources:
        journal = Journal(place, resources)
        assert (journal.version, journal.contains(0), journal.contains(1)) == (7, True, False)
        [left] = journal.left()
        assert (left.name, parquet.read_table(left).num_rows) == ("part-2.parquet", 5)
        journal.sent(left)
        assert list(journal.left()) == []
    with ExitStack() as resources:
        journal = Journal(place, resources)
        assert list(journal.left()) == []
        written(journal, 1, 2)
        journal.complete(1, 8)
        assert [file.name for file in journal.left()] == ["part-0.parquet"]
    assert sorted(place.names("")) == ["1", "state.json"]


class TasksElsewhere:
    """A frame on a cluster as `Journal.keep` uses it: two tasks write files of one row and of none, and an attempt that failed another."""

    def __init__(self, place: S3Folder) -> None:
        self.write = self
        self.sparkSession = SimpleNamespace(
            sparkContext=SimpleNamespace(master="spark://192.0.2.1:7077"), conf=SimpleNamespace(set=self._set)
        )
        self._place = place
        self.settings: dict[str, str] = {}

    def _set(self, name: str, value: str) -> None:
        self.settings[name] = value

    def mode(self, name: str) -> TasksElsewhere:
        assert name == "append"
        return self

    def option(self, name: str, value: int) -> TasksElsewhere:
        assert (name, value) == ("maxRecordsPerFile", 10)
        return self

    def parquet(self, uri: str) -> None:
        assert uri == self._place.uri
        for name, count in (("part-0-a.parquet", 3), ("part-0-b.parquet", 1), ("part-1-c.parquet", 0)):
            file = pa.BufferOutputStream()
            parquet.write_table(pa.table({"n": range(count)}), file)
            self._place.write(name, file.getvalue().to_pybytes())
        self._place.write("_files", "part-0-b.parquet\npart-1-c.parquet")


def test_files_that_tasks_on_other_machines_wrote_are_sent_and_those_of_failed_attempts_are_not(
    bucket: S3Folder,
) -> None:
    place = bucket.at("q-1", "clickhouse")
    tasks = TasksElsewhere(place.at("0"))
    with ExitStack() as resources:
        Journal(place, resources).keep(tasks, 0, 7, rows_per_file=10)
    assert tasks.settings == {"spark.sql.sources.commitProtocolClass": "io.headrace.spark.FilesInPlace"}
    with ExitStack() as resources:  # the next driver, on another machine
        journal = Journal(place, resources)
        assert (journal.version, journal.contains(0)) == (7, True)
        [left] = journal.left()
        assert (left.name, parquet.read_table(left).num_rows) == ("part-0-b.parquet", 1)
        journal.sent(left)
        assert list(journal.left()) == []
        journal.begin(1)
    assert place.names("") == ["state.json"]


def test_a_file_that_is_to_be_new_replaces_none_and_a_folder_of_hadoop_is_no_file(
    bucket: S3Folder, client: S3Client
) -> None:
    assert bucket.create("offsets/7", "first")
    assert not bucket.create("offsets/7", "second")
    assert bucket.read("offsets/7") == b"first"
    client.put(f"{bucket.prefix}/offsets/", "")
    assert bucket.names("offsets") == ["7"]


def test_what_needs_local_files_is_refused_by_name(bucket: S3Folder) -> None:
    with pytest.raises(UserError, match="keeps files beside its checkpoint") as refused:
        bucket.local()
    assert (refused.value.state, bucket.uri in refused.value.message) == (
        SqlState.FEATURE_NOT_SUPPORTED,
        True,
    )


def test_a_bucket_that_keeps_the_rules_is_accepted_and_left_empty(bucket: S3Folder) -> None:
    bucket.check()
    assert bucket.names("") == []


def test_a_missing_bucket_and_a_closed_port_are_errors_with_a_remedy(bucket: S3Folder) -> None:
    with pytest.raises(UserError, match="the bucket 'no-such-bucket' does not exist"):
        S3Folder(bucket.login, "no-such-bucket", "x").check()
    with pytest.raises(ExternalError, match="does not answer as S3") as away:
        S3Folder(Login("http://127.0.0.1:9", "us-east-1", "k", "s"), "b", "x").check()
    assert "HEADRACE_CHECKPOINT_S3_ENDPOINT" in (away.value.hint or "")


def test_a_service_that_ignores_the_condition_is_refused(bucket: S3Folder) -> None:
    """The condition does not arrive at the service, which therefore replaces the file."""
    careless = S3Folder(
        Login(bucket.login.endpoint, "us-east-1", "careless", SECRET_KEY), bucket.bucket, bucket.prefix
    )

    def forget(request: Any, **_: Any) -> None:
        del request.headers["If-None-Match"]

    checkpoints._client(careless.login).meta.events.register("before-sign.s3.PutObject", forget)
    with pytest.raises(UserError, match="replaces a file in spite of the condition") as refused:
        careless.check()
    assert "conditional writes" in (refused.value.hint or "")
    assert bucket.names("") == []


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        ("AuthorizationHeaderMalformed", ExternalError, "another region"),
        ("301", ExternalError, "another region"),
        ("SignatureDoesNotMatch", ExternalError, "refused the server's access key"),
        ("AccessDenied", ExternalError, "does not allow the server to use"),
        ("NotImplemented", UserError, "does not know the condition"),
        ("InternalError", ExternalError, "does not answer as S3"),
    ],
)
def test_what_s3_reports_becomes_a_cause_and_a_remedy(
    bucket: S3Folder, monkeypatch: pytest.MonkeyPatch, code: str, kind: type[HeadraceError], words: str
) -> None:
    class Refusing:
        def put_object(self, **_: Any) -> None:
            raise ClientError({"Error": {"Code": code, "Message": SECRET_KEY}}, "PutObject")

    monkeypatch.setattr(checkpoints, "_client", lambda _login: Refusing())
    with pytest.raises(kind, match=words) as refused:
        bucket.check()
    assert refused.value.hint
    assert SECRET_KEY not in refused.value.text()


def test_each_incarnation_of_a_query_keeps_its_snapshots_of_iceberg_in_the_places_of_all_pools(
    store: CheckpointStore, tmp_path: Path
) -> None:
    def write_offsets(checkpoint: CheckpointStore, *snapshots: int, first: int = 0) -> None:
        for batch, snapshot in enumerate(snapshots, first):
            checkpoint.write(f"offsets/{batch}", f'v1\n{{}}\n{{"snapshot_id":{snapshot}}}')

    own = LocalFolder(tmp_path / "own")
    write_offsets(own.at("q"), 1, 2, 3, first=8)
    write_offsets(store.at("q.2"), 4)
    write_offsets(store.at("q.2", "parts", "sink"), 5, 6)
    write_offsets(store.at("interactive-7"), 7)
    write_offsets(own.at("ended"), 8)
    request = OptimizeRequest(("s", "t"), {}, ("q",), (own, store))
    assert read_snapshots(request) == {"2", "3", "4", "5", "6", "7"}
