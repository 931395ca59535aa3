"""Records into a stream whose shards refuse some of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.authority import Authority
from harness.kinesis import KinesisClient
from harness.kinesis.front import KinesisFront, Message, PassOn, refusing
from headrace.connectors.kinesis.admin import KINESIS
from headrace.connectors.kinesis.client import address, kinesis
from headrace.connectors.kinesis.writer import Entry, StreamWriter
from headrace.core.errors import ExternalError
from tests.kinesis.conftest import Store

THROTTLED = "ProvisionedThroughputExceededException"


@pytest.fixture
def front(kinesis: KinesisClient) -> Iterator[KinesisFront]:
    with KinesisFront(kinesis.server.uri) as front:
        yield front


def writer(front: KinesisFront, store: Store, stream: str, *, timeout_s: float = 120.0) -> StreamWriter:
    before = store | {"uris": front.uri()}
    return StreamWriter(kinesis(before), address(before, stream), timeout_s=timeout_s)


def numbered(keys: int, records: int) -> list[Entry]:
    """Return for each key the numbers of its records, in order."""
    return [{"PartitionKey": f"k{number % keys}", "Data": str(number).encode()} for number in range(records)]


def by_key(records: list[tuple[str, str]]) -> dict[str, list[int]]:
    keys: dict[str, list[int]] = {}
    for key, value in records:
        keys.setdefault(key, []).append(int(value))
    return keys


def test_the_records_of_a_key_stay_in_order_though_whole_requests_are_refused(
    kinesis: KinesisClient, front: KinesisFront, store: Store, seed: str
) -> None:
    kinesis.create(stream := f"ordered_{seed}", shards=3)
    front.answer = refusing("PutRecords", THROTTLED, times=5)
    with writer(front, store, stream) as putting:
        putting.put(numbered(7, 2400))
        putting.put([{"PartitionKey": "k0", "Data": b"2401"}])
        putting.put([])
    keys = by_key(kinesis.read(stream))
    assert sum(len(numbers) for numbers in keys.values()) == 2401
    assert all(numbers == sorted(numbers) for numbers in keys.values())


def test_what_is_refused_of_a_request_is_sent_again_and_nothing_else(
    kinesis: KinesisClient, front: KinesisFront, store: Store, seed: str
) -> None:
    kinesis.create(stream := f"some_{seed}", shards=2)
    chance = random.Random(seed)
    refused_of: list[int] = []

    def half_of_some(operation: str, request: Message, pass_on: PassOn) -> tuple[int, Message]:
        assert operation == "PutRecords"
        records = request["Records"]
        takes = [len(refused_of) >= 4 or chance.random() < 0.5 for _ in records]
        taken = [record for record, take in zip(records, takes, strict=True) if take]
        status, answer = pass_on({**request, "Records": taken})
        results = iter(answer["Records"])
        refused = {"ErrorCode": THROTTLED, "ErrorMessage": "Rate exceeded"}
        answer["Records"] = [next(results) if take else refused for take in takes]
        answer["FailedRecordCount"] = takes.count(False)
        refused_of.append(answer["FailedRecordCount"])
        return status, answer

    front.answer = half_of_some
    with writer(front, store, stream) as putting:
        putting.put(numbered(50, 1200))
    assert sum(refused_of) > 0
    assert sorted(int(value) for _, value in kinesis.read(stream)) == list(range(1200))


def test_records_that_are_refused_for_too_long_are_an_error(
    kinesis: KinesisClient, front: KinesisFront, store: Store, seed: str
) -> None:
    kinesis.create(stream := f"full_{seed}")
    front.answer = lambda _operation, request, _pass_on: (
        200,
        {
            "FailedRecordCount": len(request["Records"]),
            "Records": [{"ErrorCode": THROTTLED, "ErrorMessage": "no"}] * len(request["Records"]),
        },
    )
    with writer(front, store, stream, timeout_s=0.2) as putting, pytest.raises(ExternalError) as caught:
        putting.put(numbered(1, 3))
    assert f"Kinesis did not accept 3 records within 0 s: {THROTTLED}" in caught.value.text()
    assert "More shards accept more records" in caught.value.text()


def test_an_authority_of_ones_own_is_trusted_and_no_other(
    kinesis: KinesisClient, store: Store, tmp_path: Path
) -> None:
    authority = Authority()
    certificate = tmp_path / "localhost.pem"
    certificate.write_bytes(authority.key_and_certificate("localhost"))
    with KinesisFront(kinesis.server.uri, certificate=certificate) as front:
        secure = {**store, "uris": front.uri("localhost"), "tls.disabled": "FALSE"}
        KINESIS.test({**secure, "tls.ca_cert_file": authority.pem})
        for said in ({}, {"tls.ca_cert_file": Authority().pem}):
            with pytest.raises(ExternalError) as caught:
                KINESIS.test({**secure, **said})
            assert "the certificate of the Kinesis store is not trusted" in caught.value.text()
            assert "set 'tls.ca_cert_file'" in caught.value.text()
        other_name = {**secure, "uris": front.uri(), "tls.ca_cert_file": authority.pem}
        with pytest.raises(ExternalError) as caught:
            KINESIS.test(other_name)
        assert "is not trusted" in caught.value.text()
