"""boto3's clients for a store. Address and identity come only from the store's checked properties, not from the environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.connectors.aws import Address, client, client_config
from headrace.connectors.kinesis import options
from headrace.connectors.tls import TLS_CA


def kinesis(store: Mapping[str, str], *, connections: int = 10) -> Any:
    """Return a client with as many pooled connections. Its methods raise botocore's errors: see `classified`."""
    address = Address(
        store[options.URIS.name], options.is_aws(store), options.region(store), store.get(TLS_CA.name)
    )
    # Ours are as they must be, and to look at each record of a request costs as much as to write it as JSON.
    config = client_config(connections=connections, parameter_validation=False)
    return client("kinesis", address, store, options.IDENTITY, config)


def address(store: Mapping[str, str], stream: str) -> dict[str, str]:
    """Return a request's reference to a stream: its name, or for another account its ARN."""
    if options.ACCOUNT.name not in store:
        return {"StreamName": stream}
    region = options.region(store)
    partition = next((name for name in ("cn", "us-gov") if region.startswith(f"{name}-")), None)
    service = f"arn:aws-{partition}:kinesis" if partition else "arn:aws:kinesis"
    return {"StreamARN": f"{service}:{region}:{store[options.ACCOUNT.name]}:stream/{stream}"}
