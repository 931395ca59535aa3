"""Common part of stores on AWS: credentials and boto3's clients. They are created only from checked properties, not from the environment.

boto3 is imported in functions: every driver loads this module, and few drivers use AWS.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from headrace.connectors.tls import authority_file
from headrace.core.properties import PropertySpec, Scope, matching

if TYPE_CHECKING:
    import boto3
    from botocore.config import Config

CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 30
OWN_REGION = "us-east-1"
"""For addresses that are not AWS's: what stands in for it takes any region, but the same one each time."""
_SESSION_NAME = "headrace"
_AWS = re.compile(r"(?:^|\.)(?:amazonaws\.com(?:\.cn)?|api\.aws)\Z")


REGION = PropertySpec(
    "aws.region",
    matching(r"[a-z]{2,}(-[a-z]+)+-\d+", "a region, as us-east-1"),
    Scope.STORE,
    "the region, if `uris` does not contain it",
    default=f"that of `uris`; {OWN_REGION} if the address is not AWS's",
)


@dataclass(frozen=True)
class Identity:
    """The properties of an AWS identity, under the names of a store type."""

    access_key_id: PropertySpec[str]
    secret_access_key: PropertySpec[str]
    role: PropertySpec[str]
    external_id: PropertySpec[str]


def identity(prefix: str) -> Identity:
    """Return the properties of an identity, with names that begin with `prefix` and a dot. A type may leave the external id out."""
    return Identity(
        access_key_id=PropertySpec(
            f"{prefix}.access_key_id",
            matching(r"\w{1,128}", "an access key's id"),
            Scope.STORE,
            "the id of an access key",
            default="needed without a role",
        ),
        secret_access_key=PropertySpec(
            f"{prefix}.secret_access_key",
            matching(r"[!-~]{1,256}", "a secret access key"),
            Scope.STORE,
            "its secret",
            default="needed with an id",
            secret=True,
        ),
        role=PropertySpec(
            f"{prefix}.iam_role_arn",
            matching(
                r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]{1,512}", "arn:aws:iam::<12 digits>:role/<name>"
            ),
            Scope.STORE,
            "a role to assume: with the access key, or, at AWS's own addresses, with the identity under which the server runs",
            default="none",
        ),
        external_id=PropertySpec(
            f"{prefix}.iam_external_id",
            matching(r"[\w+=,.@:/-]{2,1224}", "2 to 1224 letters, digits and +=,.@:/-"),
            Scope.STORE,
            "the external id that the role's trust policy requires",
            default="needed with a role",
        ),
    )


@dataclass(frozen=True)
class Address:
    """Address of a service: the endpoint (None: AWS's own), whether that is AWS, the region of signatures, and the trusted authority
    (PEM); None: public ones."""

    endpoint: str | None
    aws: bool
    region: str
    authority: str | None = None


def is_aws(host: str) -> bool:
    """True if the host is AWS's own."""
    return _AWS.search(host) is not None


def client(service: str, address: Address, store: Mapping[str, str], who: Identity, config: Config) -> Any:
    """Return a client as the one whom the store's properties name.

    Its methods raise botocore's errors, and so does this where a role cannot be assumed.
    """
    from botocore.credentials import RefreshableCredentials, create_assume_role_refresher

    session = _session(address)
    keys = _keys(store, who)
    if who.role.name in store:
        # Requested at the first use, and again before it expires.
        assume_role = {"RoleArn": store[who.role.name], "RoleSessionName": _SESSION_NAME}
        if who.external_id.name in store:
            assume_role["ExternalId"] = store[who.external_id.name]
        refresh = create_assume_role_refresher(_sts(address, keys), assume_role)
        session._session._credentials = RefreshableCredentials.create_from_metadata(
            refresh(), refresh, "sts-assume-role"
        )
        keys = {}
    return session.client(
        service, endpoint_url=address.endpoint, config=config, verify=_authorities(address), **keys
    )


def client_config(*, connections: int = 10, **more: Any) -> Config:
    """Client settings: `connections` pooled connections, short timeouts, at most three attempts."""
    from botocore.config import Config

    return Config(
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=READ_TIMEOUT_S,
        max_pool_connections=connections,
        retries={"mode": "standard", "total_max_attempts": 3},
        tcp_keepalive=True,
        ignore_configured_endpoint_urls=True,
        **more,
    )


def _session(address: Address) -> boto3.Session:
    """Return a session, which has no identity yet and is never shared, since clients of a session share its identity."""
    import boto3
    import botocore.session

    session = botocore.session.Session()
    created = boto3.Session(botocore_session=session, region_name=address.region)
    session.register_component("data_loader", _service_models())
    return created


@cache
def _service_models() -> Any:
    """Return the loader of the descriptions of AWS's services, which keeps them: each session would parse them for half a second."""
    from botocore.loaders import create_loader

    return create_loader()


def _sts(address: Address, keys: dict[str, str]) -> Any:
    # A replacement of AWS, such as LocalStack, replaces all of its services.
    endpoint = {} if address.aws else {"endpoint_url": address.endpoint}
    return _session(address).client(
        "sts", config=client_config(connections=1), verify=_authorities(address), **endpoint, **keys
    )


def _keys(store: Mapping[str, str], who: Identity) -> dict[str, str]:
    if who.access_key_id.name not in store:
        return {}
    return {
        "aws_access_key_id": store[who.access_key_id.name],
        "aws_secret_access_key": store[who.secret_access_key.name],
    }


def _authorities(address: Address) -> str | bool:
    """Return botocore's `verify`: a file with the store's own authority, or True for the public ones."""
    return True if address.authority is None else authority_file(address.authority)
