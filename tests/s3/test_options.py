"""Properties of a store and of its entities, and their values in boto3."""

from __future__ import annotations

import pytest

from harness.kinesis import MotoServer
from headrace.connectors.s3.client import s3
from headrace.connectors.s3.options import LOCATION, folder_of
from headrace.connectors.s3.partitions import Part, parts_of, values_of
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from tests.s3.conftest import checked

KEYS = {"aws.access_key_id": "AKIA1", "aws.secret_access_key": "not"}
AWS = "https://logs.s3.eu-west-1.amazonaws.com"
ROLE = {"aws.iam_role_arn": "arn:aws:iam::123456789012:role/headrace/reader", "aws.iam_external_id": "x-1"}


@pytest.mark.parametrize(
    ("uris", "more", "endpoint", "region", "request_url"),
    [
        (
            AWS,
            {},
            "https://s3.eu-west-1.amazonaws.com",
            "eu-west-1",
            "https://logs.s3.eu-west-1.amazonaws.com/k",
        ),
        (
            "https://my.logs.s3.amazonaws.com/",
            {"aws.region": "us-west-2"},
            "https://s3.us-west-2.amazonaws.com",
            "us-west-2",
            "https://logs.s3.us-west-2.amazonaws.com/k",
        ),
        (
            "https://s3.cn-north-1.amazonaws.com.cn/logs",
            {},
            "https://s3.cn-north-1.amazonaws.com.cn",
            "cn-north-1",
            "https://logs.s3.cn-north-1.amazonaws.com.cn/k",
        ),
        (
            "http://127.0.0.1:9000/logs",
            {},
            "http://127.0.0.1:9000",
            "us-east-1",
            "http://127.0.0.1:9000/logs/k",
        ),
        ("http://[::1]:9000", {}, "http://[::1]:9000", "us-east-1", "http://[::1]:9000/logs/k"),
        (
            "https://minio.example.com",
            {"aws.region": "eu-central-1"},
            "https://minio.example.com",
            "eu-central-1",
            "https://minio.example.com/logs/k",
        ),
    ],
)
def test_where_requests_go(
    uris: str,
    more: dict[str, str],
    endpoint: str,
    region: str,
    request_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://elsewhere.example")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOTHER")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "other")
    client = s3(checked({"uris": uris, "tls.disabled": str(uris.startswith("http:")), **KEYS, **more}))
    assert (client.meta.endpoint_url, client.meta.region_name) == (endpoint, region)
    url = client.generate_presigned_url("get_object", {"Bucket": "logs", "Key": "k"})
    assert url.split("?")[0] == request_url
    credentials = client._get_credentials()
    assert (credentials.access_key, credentials.secret_key, credentials.token) == ("AKIA1", "not", None)


@pytest.mark.parametrize(
    "uris",
    [
        "logs",
        "s3://logs",
        "file:///etc/passwd",
        "https://host/a/b",
        "https://host/../a",
        "https://host/UPPER",
        "https://host?x=1",
        "https://user:hunter2@host",
        "https://host\r\nX: y",
        "https://sts.eu-west-1.amazonaws.com",
        "http://host",
    ],
)
def test_an_address_that_is_none_is_refused(uris: str) -> None:
    with pytest.raises(UserError) as caught:
        checked({"uris": uris, **KEYS})
    assert caught.value.state is SqlState.INVALID_PARAMETER
    assert "hunter2" not in caught.value.text()


@pytest.mark.parametrize(
    ("properties", "state", "words"),
    [
        ({"uris": AWS}, SqlState.MISSING_PARAMETER, "aws.access_key_id"),
        ({"uris": AWS, "aws.access_key_id": "A"}, SqlState.MISSING_PARAMETER, "aws.secret_access_key"),
        ({"uris": AWS, "aws.secret_access_key": "A"}, SqlState.MISSING_PARAMETER, "aws.access_key_id"),
        (
            {"uris": AWS, "aws.iam_role_arn": ROLE["aws.iam_role_arn"]},
            SqlState.MISSING_PARAMETER,
            "aws.iam_external_id",
        ),
        ({"uris": AWS, **KEYS, "aws.region": "us-east-1"}, SqlState.INVALID_PARAMETER, "eu-west-1"),
        ({"uris": "https://logs.s3.amazonaws.com", **KEYS}, SqlState.MISSING_PARAMETER, "aws.region"),
        # The server's own identity signs nothing for a stranger.
        ({"uris": "https://host", **ROLE}, SqlState.INVALID_PARAMETER, "not AWS's own"),
        ({"uris": AWS, **KEYS, "tls.disabled": "TRUE"}, SqlState.INVALID_PARAMETER, "'tls.disabled' is"),
        *(
            ({"uris": AWS, **KEYS, name: "x"}, SqlState.INVALID_PARAMETER, "has no property")
            for name in ("endpoint_url", "aws_session_token", "s3.proxies", "aws.session_token")
        ),
    ],
)
def test_missing_and_contradictory_settings_are_reported(
    properties: dict[str, str], state: SqlState, words: str
) -> None:
    with pytest.raises(UserError) as caught:
        checked(properties)
    assert caught.value.state is state
    assert words in caught.value.text()


def test_a_role_is_assumed_with_its_external_id() -> None:
    with MotoServer() as server:
        store = checked({"uris": server.uri, "tls.disabled": "TRUE", **KEYS, **ROLE})
        assert s3(store)._get_credentials().token  # of the role: the keys have none


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("s3://lake/a/b/", ("lake", "a", "b")),
        ("s3a://lake", ("lake",)),
        ("s3://lake/year=2026/it's", ("lake", "year=2026", "it's")),
        ("s3://lake/../b", None),
        ("s3://lake/a//b", None),
        ("s3://LAKE/a", None),
        ("https://lake/a", None),
        ("s3://lake/a\nb", None),
        ("s3://lake/" + "a" * 1100, None),
    ],
)
def test_a_location_is_a_bucket_and_folders(text: str, path: tuple[str, ...] | None) -> None:
    if path is None:
        with pytest.raises(ValueError, match="expected s3:"):
            LOCATION.type.read(text)
    else:
        assert LOCATION.type.read(text) == path


def test_nothing_outside_the_bucket_of_a_store_is_touched() -> None:
    store = checked({"uris": AWS, **KEYS})
    assert folder_of(store, ("logs", "a", "b")) == ("logs", "a/b/")
    for path in (("other", "a"), ("logs", ".."), ("logs", "a/b"), ()):
        with pytest.raises(UserError) as caught:
            folder_of(store, path)
        assert caught.value.state is SqlState.INVALID_PARAMETER


def test_folders_by_columns_and_times() -> None:
    assert parts_of('Country, day(ts), "a, ""b"""') == (Part("country"), Part("ts", "day"), Part('a, "b"'))
    assert [part.name for part in parts_of("hour(ts)")] == ["ts_hour"]
    for text in ("", "day(ts", "ts)", "week(ts)", "a; DROP", "a, a"):
        with pytest.raises(ValueError, match="expected"):
            parts_of(text)
    assert values_of("t/country=a%2Fb/ts_day=2026-01-31/x=__HIVE_DEFAULT_PARTITION__/part=1.parquet") == {
        "country": "a/b",
        "ts_day": "2026-01-31",
        "x": None,
    }
