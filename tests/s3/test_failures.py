"""Translation of S3's errors: the failed step, the cause, the remedy. moto accepts every key: codes are given."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from headrace.connectors.s3.admin import S3Folders, test
from headrace.connectors.s3.failures import classified
from headrace.core.errors import ExternalError, HeadraceError, UserError
from tests.s3.conftest import Store


@pytest.mark.parametrize(
    ("code", "operation", "kind", "words"),
    [
        ("InvalidAccessKeyId", "ListObjectsV2", ExternalError, "authentication: S3 refused the store's keys"),
        ("SignatureDoesNotMatch", "ListBuckets", ExternalError, "authentication"),
        (
            "AccessDenied",
            "AssumeRole",
            ExternalError,
            "the role of the store may not be assumed: no to role/x",
        ),
        ("AccessDenied", "GetObject", ExternalError, "permission: S3 refused the store's user"),
        ("403", "HeadObject", ExternalError, "permission"),
        ("PermanentRedirect", "ListObjectsV2", ExternalError, "another region"),
        ("AuthorizationHeaderMalformed", "ListObjectsV2", ExternalError, "another region"),
        ("SlowDown", "PutObject", ExternalError, "slow down"),
        ("NoSuchBucket", "ListObjectsV2", UserError, "the bucket 'lake' does not exist"),
        ("NoSuchKey", "GetObject", UserError, "was deleted or replaced before"),
        ("PreconditionFailed", "GetObject", UserError, "was deleted or replaced before"),
        ("InternalError", "GetObject", ExternalError, "http://lake did not answer as S3"),
        ("Whatever", "GetObject", ExternalError, "S3 reported Whatever"),
    ],
)
def test_codes(code: str, operation: str, kind: type[HeadraceError], words: str) -> None:
    answer = {"Error": {"Code": code, "Message": "no to arn:aws:iam::123456789012:role/x"}}
    with pytest.raises(kind, match=words) as caught, classified({"uris": "http://lake"}, "lake"):
        raise ClientError(answer, operation)
    assert caught.value.hint
    assert "123456789012" not in caught.value.text()


@pytest.mark.parametrize(
    ("uris", "words"),
    [
        ("http://no-such-host.invalid/lake", "DNS: the host of the S3 store is not known"),
        ("http://127.0.0.1:1/lake", "http://127.0.0.1:1/lake did not answer as S3"),
    ],
)
def test_steps_before_s3(store: Store, uris: str, words: str) -> None:
    with pytest.raises(ExternalError, match=words):
        test({**store, "uris": uris})


def test_a_bucket_that_is_not_there(store: Store) -> None:
    missing = {**store, "uris": store["uris"].replace("/lake", "/pond")}
    for ask in (lambda: test(missing), lambda: S3Folders().describe_entity(missing, ("pond", "a"))):
        with pytest.raises(UserError, match="the bucket 'pond' does not exist"):
            ask()
