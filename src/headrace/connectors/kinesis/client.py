"""boto3's clients for a store: of its checked properties, and nothing else says where they go or who they are."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from tempfile import NamedTemporaryFile
from typing import Any

import boto3
import botocore.session
from botocore.config import Config
from botocore.credentials import RefreshableCredentials, create_assume_role_refresher

from headrace.connectors.kinesis import options
from headrace.connectors.tls import TLS_CA

CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 30
_SESSION_NAME = "headrace"


def kinesis(store: Mapping[str, str], *, connections: int = 10) -> Any:
    """A client for as many threads as it has connections. Its methods raise botocore's errors: see `failures`."""
    session = botocore.session.Session()
    keys = _keys(store)
    if options.ROLE.name in store:
        # Asked for when it is first needed, and again before it expires.
        refresh = create_assume_role_refresher(
            _sts(store, keys),
            {"RoleArn": store[options.ROLE.name], "RoleSessionName": _SESSION_NAME},
        )
        session._credentials = RefreshableCredentials.create_from_metadata(
            refresh(), refresh, "sts-assume-role"
        )
        keys = {}
    return boto3.Session(botocore_session=session, region_name=options.region(store)).client(
        "kinesis",
        endpoint_url=store[options.URIS.name],
        config=_config(connections),
        verify=_authorities(store),
        **keys,
    )


def address(store: Mapping[str, str], stream: str) -> dict[str, str]:
    """How a request names a stream: by its name, or in another account by its ARN."""
    if options.ACCOUNT.name not in store:
        return {"StreamName": stream}
    region = options.region(store)
    partition = next((name for name in ("cn", "us-gov") if region.startswith(f"{name}-")), None)
    service = f"arn:aws-{partition}:kinesis" if partition else "arn:aws:kinesis"
    return {"StreamARN": f"{service}:{region}:{store[options.ACCOUNT.name]}:stream/{stream}"}


def _sts(store: Mapping[str, str], keys: dict[str, str]) -> Any:
    # What stands in for AWS stands in for all of it.
    endpoint = {} if options.is_aws(store) else {"endpoint_url": store[options.URIS.name]}
    session = boto3.Session(region_name=options.region(store))
    return session.client("sts", config=_config(1), verify=_authorities(store), **endpoint, **keys)


def _authorities(store: Mapping[str, str]) -> str | bool:
    """botocore's `verify`: a file with the store's own authority, or True for the public ones."""
    return str(_file(store[TLS_CA.name]).name) if TLS_CA.name in store else True


@cache
def _file(text: str) -> Any:
    """A file that is there until this process ends: botocore reads it for every connection that it opens."""
    file = NamedTemporaryFile("w", prefix="headrace-authority-", suffix=".pem")  # noqa: SIM115 - see above
    file.write(text)
    file.flush()
    return file


def _keys(store: Mapping[str, str]) -> dict[str, str]:
    if options.ACCESS_KEY_ID.name not in store:
        return {}
    return {
        "aws_access_key_id": store[options.ACCESS_KEY_ID.name],
        "aws_secret_access_key": store[options.SECRET_ACCESS_KEY.name],
    }


def _config(connections: int) -> Config:
    return Config(
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=READ_TIMEOUT_S,
        max_pool_connections=connections,
        retries={"mode": "standard", "total_max_attempts": 3},
        tcp_keepalive=True,
        # Ours are as they must be, and to look at each record of a request costs as much as to write it as JSON.
        parameter_validation=False,
    )
