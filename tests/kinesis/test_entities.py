"""Streams of a stand-in as entities, and errors for streams that are not available."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import Iterator

import pytest

from harness.kinesis import KinesisClient, MotoServer
from harness.patience import PATIENCE_S
from headrace.connectors.base import PrintedRecord, PrintStart
from headrace.connectors.kinesis.admin import KINESIS, KinesisStreams, partition_key
from headrace.connectors.kinesis.options import PROPERTIES
from headrace.connectors.kinesis.spark import identify
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.properties import PropertyReader, Scope, of_scope, stored
from headrace.core.sqlstate import SqlState
from tests.kinesis.conftest import Store, store_of

streams = KinesisStreams()


def shards(number: int) -> PropertyReader:
    return PropertyReader(
        stored({"kinesis.shards": str(number)}), of_scope(PROPERTIES, Scope.ENTITY), what="an entity"
    )


def failure(store: Store, stream: str | None = None) -> HeadraceError:
    """Return the error of CREATE STORE, or of DESCRIBE ENTITY if a stream is named."""
    with pytest.raises(HeadraceError) as caught:
        KINESIS.test(store) if stream is None else streams.describe_entity(store, (stream,))
    return caught.value


async def printed(store: Store, stream: str, count: int, *, from_beginning: bool) -> list[PrintedRecord]:
    records = await streams.print_entity(
        store, (stream,), start=PrintStart("earliest" if from_beginning else "latest")
    )
    shown = []
    async with asyncio.timeout(PATIENCE_S):
        async for record in records:
            shown.append(record)
            if len(shown) == count:
                break
    await records.aclose()  # type: ignore[attr-defined]
    return shown


def test_streams_are_made_listed_described_filled_and_dropped(store: Store, seed: str) -> None:
    stream = f"made.of_{seed}"
    made = streams.create_entity(store, (stream,), shards(3))
    assert made.layout == {"shards": 3}
    assert made.configs == {"stream.mode": "PROVISIONED", "retention.hours": "24", "encryption": "NONE"}
    assert streams.describe_entity(store, (stream,)) == made
    identity = identify(store)
    first = identity((stream,))
    assert identity((stream,)) == first
    assert (stream, True) in streams.list_entities(store, ())
    assert streams.list_entities(store, (stream,)) == []
    with pytest.raises(UserError) as caught:
        streams.create_entity(store, (stream,), shards(1))
    assert caught.value.state is SqlState.DUPLICATE_ENTITY
    streams.drop_entity(store, (stream,))
    assert failure(store, stream).state is SqlState.ENTITY_NOT_FOUND
    assert identity((stream,)) == {}
    # Gone at once, so that another of its name can be made.
    assert streams.create_entity(store, (stream,), shards(1)).layout == {"shards": 1}
    # A query that was at a place in the first one must know it from the second.
    assert identity((stream,)).keys() == {stream}
    assert identity((stream,)) != first


async def test_a_printed_stream_goes_on_over_a_split_and_a_merge(
    kinesis: KinesisClient, store: Store, seed: str
) -> None:
    stream = f"split_{seed}"
    kinesis.create(stream, shards=2)
    streams.insert(store, (stream,), key=b"k", value=b'{"n": 1}', options={})
    kinesis.split(stream, "shardId-000000000000")
    kinesis.put(stream, [("a", "2"), ("b", "3")])
    kinesis.merge(stream, "shardId-000000000003", "shardId-000000000001")
    kinesis.put(stream, [("c", "4")])
    records = await printed(store, stream, 4, from_beginning=True)
    assert sorted(str(record.value) for record in records) == ["2", "3", "4", '{"n": 1}']
    assert [record.key for record in records if record.value == '{"n": 1}'] == ["k"]
    assert re.fullmatch(r"shard shardId-\d{12}, sequence number \d+, timestamp \d+", records[0].metadata)


async def test_printing_from_now_on_leaves_out_what_was_there(
    kinesis: KinesisClient, store: Store, seed: str
) -> None:
    stream = f"now_{seed}"
    kinesis.create(stream, shards=2)
    kinesis.put(stream, [(str(number), "old") for number in range(10)])
    kinesis.split(stream, "shardId-000000000001")
    records = await streams.print_entity(store, (stream,), start=PrintStart("latest"))
    kinesis.put(stream, [("k", "new")])
    async with asyncio.timeout(PATIENCE_S):
        assert (await anext(records)).value == "new"  # type: ignore[call-overload]
    await records.aclose()  # type: ignore[attr-defined]


def test_a_stream_whose_shards_aws_chooses_is_described_and_filled(
    kinesis: KinesisClient, store: Store, seed: str
) -> None:
    stream = f"on_demand_{seed}"
    kinesis.boto.create_stream(StreamName=stream, StreamModeDetails={"StreamMode": "ON_DEMAND"})
    kinesis.active(stream)
    entity = streams.describe_entity(store, (stream,))
    assert (entity.configs["stream.mode"], entity.layout) == ("ON_DEMAND", {"shards": 4})
    streams.insert(store, (stream,), key=b"k", value=b"1", options={})
    assert kinesis.read(stream) == [("k", "1")]


def test_a_key_that_kinesis_would_not_take_is_made_one_that_it_does() -> None:
    assert partition_key("clé".encode()) == "clé"
    assert partition_key(b"\xff\x00") == "/wA="
    assert len(partition_key(b"x" * 257)) == 64
    assert partition_key(b"x" * 257) == partition_key(b"x" * 257)
    assert partition_key(None) != partition_key(None)
    assert partition_key(b"")


def test_a_stream_of_another_account_is_reached_by_its_arn(
    kinesis: KinesisClient, store: Store, seed: str
) -> None:
    kinesis.create(f"shared_{seed}")
    own = store | {"kinesis.account.id": "000000000000"}
    assert streams.describe_entity(own, (f"shared_{seed}",)).layout == {"shards": 1}
    other = store | {"kinesis.account.id": "123456789012"}
    assert failure(other, f"shared_{seed}").state is SqlState.ENTITY_NOT_FOUND


def test_what_kinesis_refuses_is_said(store: Store) -> None:
    missing = failure(store, "missing")
    assert missing.state is SqlState.ENTITY_NOT_FOUND
    assert "the stream 'missing' does not exist" in missing.text()
    for name in ("a b", "a/b", "", "x" * 129):
        assert failure(store, name).state is SqlState.INVALID_PARAMETER
    with pytest.raises(UserError) as caught:
        streams.create_entity(store, ("too_many",), shards(9999))
    assert caught.value.state is SqlState.CONFIGURATION_LIMIT_EXCEEDED
    assert "shard count must be between" in caught.value.text()
    with pytest.raises(UserError) as caught:
        streams.describe_entity(store, ("a", "b"))
    assert caught.value.state is SqlState.SYNTAX_ERROR


@pytest.fixture(scope="module")
def guarded_aws() -> Iterator[tuple[MotoServer, Store]]:
    """A stand-in that checks keys and rights, and a store of a user who may assume the role `reader`, and nothing else."""
    with MotoServer(INITIAL_NO_AUTH_ACTION_COUNT="5") as server:
        iam = server.client("iam")
        iam.create_user(UserName="u")
        assume = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": "*"}]}'
        iam.put_user_policy(UserName="u", PolicyName="p", PolicyDocument=assume)
        key = iam.create_access_key(UserName="u")["AccessKey"]
        iam.create_role(RoleName="reader", AssumeRolePolicyDocument=assume)
        everything = assume.replace("sts:AssumeRole", "kinesis:*")
        iam.put_role_policy(RoleName="reader", PolicyName="p", PolicyDocument=everything)
        keys = {
            "kinesis.access_key_id": key["AccessKeyId"],
            "kinesis.secret_access_key": key["SecretAccessKey"],
        }
        yield server, store_of(server, **keys)


def test_a_role_is_assumed_with_the_keys(guarded_aws: tuple[MotoServer, Store]) -> None:
    _, store = guarded_aws
    role = store | {"kinesis.iam_role_arn": "arn:aws:iam::123456789012:role/reader"}
    KINESIS.test(role)
    assert streams.create_entity(role, ("by_role",), shards(1)).layout == {"shards": 1}


def test_refused_keys_and_missing_rights_are_reported_without_secrets(
    guarded_aws: tuple[MotoServer, Store],
) -> None:
    _, store = guarded_aws
    lacking = failure(store)
    assert (lacking.state, type(lacking)) == (SqlState.REMOTE_UNAVAILABLE, ExternalError)
    assert "a right is missing" in lacking.text()
    wrong = failure(store | {"kinesis.secret_access_key": "hunter2"})
    assert "refused the store's keys" in wrong.text()
    unknown = failure(store | {"kinesis.access_key_id": "AKIANOBODY", "kinesis.secret_access_key": "hunter2"})
    assert "refused the store's keys" in unknown.text()
    assert "hunter2" not in wrong.text() + unknown.text()


def test_the_step_that_failed_is_named(store: Store) -> None:
    nowhere = failure(store | {"uris": "https://kinesis.nowhere.invalid"})
    assert "the host name of the Kinesis store is not known" in nowhere.text()
    plain = failure(store | {"uris": store["uris"].replace("http:", "https:")})
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        closed = failure(store | {"uris": f"http://127.0.0.1:{silent.getsockname()[1]}"})
    # What is no Kinesis looks the same as what is not there at all.
    for error in (plain, closed):
        assert error.state is SqlState.REMOTE_UNAVAILABLE
        assert re.search(r"https?://127.0.0.1:\d+ did not answer as Kinesis", error.text())


async def test_printing_begins_at_a_time(kinesis: KinesisClient, store: Store, seed: str) -> None:
    stream = f"time_{seed}"
    kinesis.create(stream, shards=2)
    kinesis.put(stream, [("k", "old")])
    [old] = await printed(store, stream, 1, from_beginning=True)
    # The stand-in's clock, in whole milliseconds.
    began = int(old.metadata.rsplit(" ", 1)[1]) + 2
    while time.time() * 1000 < began:
        await asyncio.sleep(0.001)
    kinesis.put(stream, [("k", "new")])
    records = await streams.print_entity(store, (stream,), start=PrintStart(began))
    async with asyncio.timeout(PATIENCE_S):
        assert (await anext(records)).value == "new"  # type: ignore[call-overload]
    await records.aclose()  # type: ignore[attr-defined]
