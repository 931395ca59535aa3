"""AWS's error texts without account names, which users who may create stores must not learn from them.

Apart from `aws`, so that who only reads errors does not import boto3.
"""

from __future__ import annotations

import re

_ACCOUNT = re.compile(r"arn:aws[\w-]*:[\w-]+:[\w-]*:\d*:| (?:under|in|for|of) account:? \d{12}\b")


def without_accounts(words: str) -> str:
    """Return `words` with ARNs cut down to their resource, without account, service and region."""
    return _ACCOUNT.sub("", words)
