"""AWS's errors without accounts."""

from __future__ import annotations

import pytest

from headrace.connectors.aws_words import without_accounts


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            "User: arn:aws:sts::123456789012:assumed-role/r/headrace is not authorized to perform: kinesis:PutRecords "
            "on resource: arn:aws:kinesis:eu-west-1:123456789012:stream/views",
            "User: assumed-role/r/headrace is not authorized to perform: kinesis:PutRecords on resource: stream/views",
        ),
        ("Rate exceeded for stream views under account 123456789012.", "Rate exceeded for stream views."),
        ("no access to arn:aws-cn:s3:::bucket/key", "no access to bucket/key"),
        ("order 123456789012 is too large", "order 123456789012 is too large"),
    ],
)
def test_accounts_are_left_out(said: str, expected: str) -> None:
    assert without_accounts(said) == expected
