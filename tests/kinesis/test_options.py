"""Properties of a store, and their values in boto3."""

from __future__ import annotations

import pytest

from headrace.connectors.kinesis.client import address, kinesis
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from tests.kinesis.conftest import checked

KEYS = {"kinesis.access_key_id": "AKIA1", "kinesis.secret_access_key": "not"}
AWS = "https://kinesis.eu-west-1.amazonaws.com"
ROLE = "arn:aws:iam::123456789012:role/headrace/reader"


@pytest.mark.parametrize(
    ("uris", "region"),
    [
        (AWS, "eu-west-1"),
        ("https://kinesis-fips.us-gov-west-1.amazonaws.com/", "us-gov-west-1"),
        ("https://vpce-1a-2b.kinesis.us-east-2.vpce.amazonaws.com", "us-east-2"),
        ("https://kinesis.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("https://123456789012.data-kinesis.ap-south-1.amazonaws.com", "ap-south-1"),
        ("http://127.0.0.1:4567", "us-east-1"),
        ("http://[::1]:4567", "us-east-1"),
        ("https://kinesis.example.com", "us-east-1"),
    ],
)
def test_the_region_is_that_of_the_address(uris: str, region: str) -> None:
    properties = checked({"uris": uris, "tls.disabled": str(uris.startswith("http:")), **KEYS})
    assert properties["uris"] == uris.rstrip("/")
    client = kinesis(properties)
    assert (client.meta.region_name, client.meta.endpoint_url) == (region, properties["uris"])


@pytest.mark.parametrize(
    "uris",
    [
        "kinesis.eu-west-1.amazonaws.com",
        "ftp://host",
        "file:///etc/passwd",
        "https://",
        "https://host/path",
        "https://host?x=1",
        "https://host#x",
        "https://host:99999",
        "https://user:hunter2@host",
        "https://a b",
        "https://host\r\nX: y",
        "http://host",
    ],
)
def test_an_address_that_is_no_address_of_a_server_is_refused(uris: str) -> None:
    with pytest.raises(UserError) as caught:
        checked({"uris": uris, **KEYS})
    assert caught.value.state is SqlState.INVALID_PARAMETER
    assert "hunter2" not in caught.value.text()


@pytest.mark.parametrize(
    ("properties", "state", "words"),
    [
        ({"uris": AWS}, SqlState.MISSING_PARAMETER, "kinesis.access_key_id"),
        (
            {"uris": AWS, "kinesis.access_key_id": "A"},
            SqlState.MISSING_PARAMETER,
            "kinesis.secret_access_key",
        ),
        (
            {"uris": AWS, "kinesis.secret_access_key": "A"},
            SqlState.MISSING_PARAMETER,
            "kinesis.access_key_id",
        ),
        ({"uris": AWS, **KEYS, "aws.region": "us-east-1"}, SqlState.INVALID_PARAMETER, "eu-west-1"),
        ({"uris": "https://kinesis.amazonaws.com", **KEYS}, SqlState.MISSING_PARAMETER, "aws.region"),
        ({"uris": AWS, **KEYS, "kinesis.account.id": "12"}, SqlState.INVALID_PARAMETER, "twelve digits"),
        ({"uris": AWS, **KEYS, "kinesis.account.id": '"'}, SqlState.INVALID_PARAMETER, "twelve digits"),
        ({"uris": AWS, **KEYS, "kinesis.iam_role_arn": "x"}, SqlState.INVALID_PARAMETER, "arn:aws:iam"),
        # The server's own identity signs nothing for a stranger.
        ({"uris": "https://host", "kinesis.iam_role_arn": ROLE}, SqlState.INVALID_PARAMETER, "not AWS's own"),
        (
            {"uris": "https://amazonaws.com.example", "kinesis.iam_role_arn": ROLE},
            SqlState.INVALID_PARAMETER,
            "not AWS's",
        ),
        *(
            ({"uris": AWS, **KEYS, name: "x"}, SqlState.INVALID_PARAMETER, "has no property")
            for name in (
                "endpoint_url",
                "verify",
                "aws_session_token",
                "kinesis.proxies",
                "tls.verify_server_hostname",
            )
        ),
        *(
            (
                {"uris": uris, **KEYS, "tls.disabled": disabled},
                SqlState.INVALID_PARAMETER,
                "'tls.disabled' is",
            )
            for uris, disabled in ((AWS, "TRUE"), ("http://host", "FALSE"))
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


def test_only_properties_set_the_identity_and_the_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://elsewhere.example")
    monkeypatch.setenv("AWS_ENDPOINT_URL_KINESIS", "http://elsewhere.example")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOTHER")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "other")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "other")
    client = kinesis(checked({"uris": AWS, **KEYS}))
    credentials = client._get_credentials()
    assert client.meta.endpoint_url == AWS
    assert (credentials.access_key, credentials.secret_key, credentials.token) == ("AKIA1", "not", None)


@pytest.mark.parametrize("text", ["123456789012", '"123456789012"'])
def test_an_account_may_be_in_quotes(text: str) -> None:
    """Terraform's provider writes them."""
    assert checked({"uris": AWS, **KEYS, "kinesis.account.id": text})["kinesis.account.id"] == "123456789012"


def test_a_stream_of_another_account_is_named_by_its_arn() -> None:
    own = checked({"uris": AWS, **KEYS})
    assert address(own, "s") == {"StreamName": "s"}
    for uris, arn in (
        (AWS, "arn:aws:kinesis:eu-west-1:123456789012:stream/s"),
        (
            "https://kinesis.cn-north-1.amazonaws.com.cn",
            "arn:aws-cn:kinesis:cn-north-1:123456789012:stream/s",
        ),
    ):
        other = checked({"uris": uris, **KEYS, "kinesis.account.id": "123456789012"})
        assert address(other, "s") == {"StreamARN": arn}
