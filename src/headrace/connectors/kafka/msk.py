"""AWS_MSK_IAM, as Amazon's brokers take it by OAUTHBEARER: a token is a request to connect, signed with the keys of a role."""

from __future__ import annotations

import time
from collections.abc import Mapping

import boto3
from aws_msk_iam_sasl_signer.MSKAuthTokenProvider import generate_auth_token_from_credentials_provider
from botocore.config import Config
from botocore.credentials import CredentialProvider, Credentials
from botocore.exceptions import BotoCoreError, ClientError

from headrace.connectors.kafka.token import USED_FOR, Token
from headrace.core.errors import ExternalError
from headrace.core.sqlstate import SqlState

_TIMEOUT_S = 10


def signed(properties: Mapping[str, str]) -> Token:
    """Return a token of 15 minutes. Raises ExternalError 57015 when AWS does not give the role's keys."""
    region, role = properties["kafka.msk.aws_region"], properties["kafka.msk.iam_role_arn"]
    requested_at = time.time()
    try:
        text, expires_ms = generate_auth_token_from_credentials_provider(region, _Role(region, role))
    except (BotoCoreError, ClientError) as error:
        reason = error.response["Error"]["Code"] if isinstance(error, ClientError) else type(error).__name__
        raise ExternalError(
            SqlState.REMOTE_UNAVAILABLE,
            f"authentication: AWS does not let the server assume the role {role}: {reason}",
            hint="Check 'kafka.msk.iam_role_arn', that the role trusts the server's AWS identity, and that the server has one.",
        ) from None
    expires_at = expires_ms / 1000
    return Token(text, role, expires_at, requested_at + (expires_at - requested_at) * USED_FOR)


class _Role(CredentialProvider):  # type: ignore[misc]  # botocore has no types
    """The keys of a role, which the server assumes with its own AWS identity in the cluster's region."""

    def __init__(self, region: str, role: str) -> None:
        super().__init__()
        self._region = region
        self._role = role

    def load(self) -> Credentials:
        config = Config(
            connect_timeout=_TIMEOUT_S, read_timeout=_TIMEOUT_S, retries={"total_max_attempts": 2}
        )
        sts = boto3.client("sts", region_name=self._region, config=config)
        keys = sts.assume_role(RoleArn=self._role, RoleSessionName="headrace")["Credentials"]
        return Credentials(keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"])
