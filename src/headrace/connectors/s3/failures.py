"""Errors of S3 and botocore, with cause, sentence and hint."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError

from headrace.connectors.aws_words import without_accounts
from headrace.connectors.reaction import Reaction
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.sqlstate import SqlState

_AWAY = SqlState.REMOTE_UNAVAILABLE


_UNREACHABLE = Reaction(
    r"EndpointConnectionError|ConnectTimeoutError|ReadTimeoutError|ConnectionClosedError|ProxyConnectionError|SSLError"
    r"|HTTPClientError|ResponseParserError|IncompleteReadError|ResponseStreamingError|InternalError|ServiceUnavailable"
    r"|InternalFailure|NotImplemented|MethodNotAllowed|RequestTimeout|\b5\d\d\b",
    ExternalError,
    _AWAY,
    "S3 does not answer",
    "Check 'uris', https or http in it, and the network.",
)
_KINDS = (
    Reaction(
        r"NoSuchBucket",
        UserError,
        SqlState.ENTITY_NOT_FOUND,
        "the bucket does not exist",
        "Check its name, and the store's 'uris'; create buckets in AWS.",
    ),
    Reaction(
        r"NoSuchKey|PreconditionFailed|InvalidRange|\b412\b",
        UserError,
        SqlState.DATA_EXCEPTION,
        "a file that the query listed was deleted or replaced before the query read it",
        "Files must not change while a query reads them. Terminate the query and create it again to read the files that remain.",
    ),
    Reaction(
        r"NoSuchUpload",
        UserError,
        SqlState.DATA_EXCEPTION,
        "an upload that belongs to a commit was aborted",
        "A lifecycle rule of the bucket, or a user, aborted it: set a rule for incomplete uploads to several days.",
    ),
    Reaction(
        r"SlowDown|Throttl|TooManyRequests|RequestLimitExceeded|\b503\b|\b429\b",
        ExternalError,
        _AWAY,
        "S3 asks to slow down",
        "A continuous query retries automatically, more slowly. More folders take more requests.",
    ),
    Reaction(
        r"AccessDenied\w*\) when calling the AssumeRole",
        ExternalError,
        _AWAY,
        "the role of the store may not be assumed",
        "The trust policy of 'aws.iam_role_arn' must name who assumes it and the external id, and these must be allowed sts:AssumeRole.",
        detail=True,
    ),
    Reaction(
        r"InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken|ExpiredToken|TokenRefreshRequired|RequestTimeTooSkewed"
        r"|InvalidClientTokenId|UnrecognizedClient|NoCredentialsError|PartialCredentialsError|MissingSecurityHeader|MissingAuthenticationToken",
        ExternalError,
        _AWAY,
        "authentication: S3 refused the store's keys",
        "Check 'aws.access_key_id', 'aws.secret_access_key' and the region, and that the clock is right.",
    ),
    Reaction(
        r"PermanentRedirect|TemporaryRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraint|\b301\b",
        ExternalError,
        _AWAY,
        "the bucket is in another region",
        "Name its region in 'uris', as https://bucket.s3.<region>.amazonaws.com, or with 'aws.region'.",
    ),
    Reaction(
        r"AccessDenied|AllAccessDisabled|Forbidden|\b403\b|AccountProblem|\(KMS",
        ExternalError,
        _AWAY,
        "permission: S3 refused the store's user",
        "Sources need s3:ListBucket and s3:GetObject, sinks s3:PutObject, s3:AbortMultipartUpload and s3:ListBucketMultipartUploads too.",
        detail=True,
    ),
    Reaction(
        r"NameResolutionError|Failed to resolve|Name or service not known",
        ExternalError,
        _AWAY,
        "DNS: the host of the S3 store is not known",
        "Check 'uris' and the region in it, and that the name can be resolved from where Headrace runs.",
    ),
    Reaction(
        r"CERTIFICATE_VERIFY_FAILED|certificate verify failed",
        ExternalError,
        _AWAY,
        "TLS: the certificate of the S3 store is not trusted",
        "Use the host name that the certificate is for in 'uris', and 'tls.ca_cert_file' for an authority of your own.",
    ),
    _UNREACHABLE,
)


@contextmanager
def classified(store: Mapping[str, str], bucket: str | None = None) -> Iterator[None]:
    """Translate botocore's errors into Headrace's; `bucket` is the requested bucket.

    A closed port and any server other than S3 cause the same error, so that users who may create stores
    cannot explore the network with them.
    """
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise _failure(error, store["uris"], bucket) from None


def missing_bucket(bucket: str) -> UserError:
    """Return 3D007, with the bucket's name."""
    kind = _KINDS[0]
    return UserError(kind.state, f"the bucket {bucket!r} does not exist", hint=kind.hint)


def code_of(error: ClientError) -> str:
    """Return S3's own word, or a status where an answer has no body."""
    return str(error.response.get("Error", {}).get("Code", ""))


def _failure(error: BotoCoreError | ClientError, uris: str, bucket: str | None) -> HeadraceError:
    if isinstance(error, BotoCoreError):
        # What lies below is not in its words.
        text = f"{type(error.kwargs.get('error')).__name__} {type(error).__name__} {error}"
    else:
        text = f"An error occurred ({code_of(error)}) when calling the {error.operation_name} operation"
    kind = next((kind for kind in _KINDS if re.search(kind.pattern, text)), None)
    if kind is _KINDS[0] and bucket is not None:
        return missing_bucket(bucket)
    if kind is None and isinstance(error, ClientError):
        return ExternalError(
            _AWAY, f"S3 reported {code_of(error)}", hint="Ask the store's operator for details."
        )
    if kind is None or kind is _UNREACHABLE:
        return ExternalError(_AWAY, f"{uris} did not answer as S3", hint=_UNREACHABLE.hint)
    words = error.response.get("Error", {}).get("Message", "") if isinstance(error, ClientError) else ""
    return kind.as_error(without_accounts(words))
