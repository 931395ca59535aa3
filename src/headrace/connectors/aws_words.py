"""What AWS says in its errors, without whose account it is: who may create stores is not to learn it of them.

Apart from `aws`, so that who only reads errors does not import boto3.
"""

from __future__ import annotations

import re

_ACCOUNT = re.compile(r"arn:aws[\w-]*:[\w-]+:[\w-]*:\d*:| (?:under|in|for|of) account:? \d{12}\b")


def without_accounts(words: str) -> str:
    """`words` with what is left of an ARN when its account, service and region are gone: `role/reader`, `stream/orders`."""
    return _ACCOUNT.sub("", words)
