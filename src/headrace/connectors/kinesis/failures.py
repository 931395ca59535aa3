"""Errors of AWS and botocore, with cause, sentence and hint.

AWS's errors have a code; without a response, botocore raises an exception of its own class.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError

from headrace.connectors.aws_words import without_accounts
from headrace.connectors.reaction import Reaction
from headrace.connectors.tls import TLS_CA
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.sqlstate import SqlState

_AWAY = SqlState.REMOTE_UNAVAILABLE
_WORDS = re.compile(r"An error occurred \((\w+)\) when calling the (\w+) operation[^:]*: (.*)")


_GONE = Reaction(
    r"InvalidArgumentException\) when calling the (GetShardIterator|GetRecords)|[Ss]hard \S+ .*(does not exist|not found)",
    UserError,
    SqlState.DATA_EXCEPTION,
    "records were removed from the stream before the query read them",
    "They expired, or the stream was deleted and created again. "
    "Terminate the query and create it again to continue from the records that remain.",
)
_MISSING = Reaction(
    r"ResourceNotFoundException",
    UserError,
    SqlState.ENTITY_NOT_FOUND,
    "the stream does not exist",
    "LIST ENTITIES lists the streams; CREATE ENTITY creates one.",
)
_THROTTLED = Reaction(
    r"ProvisionedThroughputExceeded|KMSThrottling|Throttl|TooManyRequests|RequestLimitExceeded"
    r"|LimitExceededException\) when calling the (List|Describe|Get|Put)",
    ExternalError,
    _AWAY,
    "Kinesis is throttling the store's requests",
    "A continuous query retries automatically, more slowly. More shards take more, and each shard serves all of its readers together.",
)
_NO_NAME = Reaction(
    r"NameResolutionError|Failed to resolve|Name or service not known",
    ExternalError,
    _AWAY,
    "the host name of the Kinesis store is not known",
    "Check 'uris' and the region in it, and that the name can be resolved from where Headrace runs.",
)
_UNTRUSTED = Reaction(
    r"CERTIFICATE_VERIFY_FAILED|certificate verify failed|name '.*' doesn't match",
    ExternalError,
    _AWAY,
    "the certificate of the Kinesis store is not trusted",
    f"Use the host name that the certificate is for in 'uris', and set '{TLS_CA.name}' if no public authority signed the certificate.",
)
_UNREACHABLE = Reaction(
    r"EndpointConnectionError|ConnectTimeoutError|ReadTimeoutError|ConnectionClosedError|ProxyConnectionError|SSLError"
    r"|HTTPClientError|ResponseParserError|IncompleteReadError|ResponseStreamingError|InternalFailure|ServiceUnavailable"
    r"|InternalServerError|InternalServiceError|UnknownOperationException|An error occurred \(\d+\)",
    ExternalError,
    _AWAY,
    "Kinesis does not answer",
    "Check 'uris', https or http in it, and the network.",
)
_KINDS = (
    _GONE,
    _MISSING,
    Reaction(
        r"ResourceInUseException",
        ExternalError,
        _AWAY,
        "the stream is being created, changed or deleted",
        "A continuous query retries automatically; repeat a statement in a moment.",
    ),
    _THROTTLED,
    Reaction(
        r"LimitExceededException",
        UserError,
        SqlState.CONFIGURATION_LIMIT_EXCEEDED,
        "a limit of the AWS account forbids this",
        "Use fewer shards, wait until other streams are created, or ask AWS to raise the limit.",
        detail=True,
    ),
    Reaction(
        r"UnrecognizedClient|InvalidClientTokenId|InvalidSignature|SignatureDoesNotMatch|IncompleteSignature|AuthFailure"
        r"|MissingAuthenticationToken|ExpiredToken|InvalidAccessKeyId|NoCredentialsError|PartialCredentialsError",
        ExternalError,
        _AWAY,
        "Kinesis refused the store's keys",
        "Check 'kinesis.access_key_id', 'kinesis.secret_access_key' and the region, and that the clock is right.",
    ),
    Reaction(
        r"AccessDenied\w*\) when calling the AssumeRole",
        ExternalError,
        _AWAY,
        "the role of the store may not be assumed",
        "The trust policy of 'kinesis.iam_role_arn' must name who assumes it, and these must be allowed sts:AssumeRole.",
        detail=True,
    ),
    Reaction(
        r"AccessDenied|NotAuthorized|OptInRequired|UnauthorizedOperation",
        ExternalError,
        _AWAY,
        "AWS refused the store's user: a right is missing",
        "Sources need DescribeStreamSummary, ListShards, GetShardIterator and GetRecords, sinks PutRecords, a store ListStreams.",
        detail=True,
    ),
    Reaction(
        r"\(KMS\w+\)",
        ExternalError,
        _AWAY,
        "the key that encrypts the stream cannot be used",
        "Check the KMS key's state and that the store's user may use it.",
        detail=True,
    ),
    Reaction(
        r"(InvalidArgument|Validation)Exception\) when calling the PutRecord",
        UserError,
        SqlState.DATA_EXCEPTION,
        "Kinesis refused a record",
        "A record may be as large as the stream's limit, 1 MiB unless it was raised, with its key: select less.",
        detail=True,
    ),
    Reaction(
        r"InvalidArgumentException|ValidationException|ParamValidationError|SerializationException",
        UserError,
        SqlState.INVALID_PARAMETER,
        "Kinesis refused the request",
        "Check the stream's name, its shards, and that no record is larger than the stream takes.",
        detail=True,
    ),
    _NO_NAME,
    _UNTRUSTED,
    _UNREACHABLE,
)


@contextmanager
def classified(store: Mapping[str, str], stream: str | None = None) -> Iterator[None]:
    """Translate botocore's errors into Headrace's; `stream` is the requested stream.

    A closed port and any server other than Kinesis cause the same error, so that users who may create stores
    cannot explore the network with them.
    """
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise _failure(error, store["uris"], stream) from None


def missing_stream(stream: str) -> UserError:
    """Return 3D007, with the stream's name."""
    return UserError(_MISSING.state, f"the stream {stream!r} does not exist", hint=_MISSING.hint)


def is_throttled(error: ClientError) -> bool:
    """True if a later retry is the remedy."""
    return re.search(_THROTTLED.pattern, str(error)) is not None


def _failure(error: BotoCoreError | ClientError, uris: str, stream: str | None) -> HeadraceError:
    text = f"{type(error).__name__} {error}"
    kind = _kind(text)
    if isinstance(error, BotoCoreError):
        # What lies below is not in its words.
        kind = _kind(f"{type(error.kwargs.get('error')).__name__} {text}")
    if kind is _MISSING and stream is not None:
        return missing_stream(stream)
    if kind is None and isinstance(error, ClientError):
        code = error.response.get("Error", {}).get("Code", "nothing")
        return ExternalError(_AWAY, f"Kinesis reported {code}", hint="Ask the store's operator for details.")
    if kind is None or kind is _UNREACHABLE:
        return ExternalError(_AWAY, f"{uris} did not answer as Kinesis", hint=_UNREACHABLE.hint)
    words = _WORDS.search(text)
    return kind.as_error(without_accounts(words[3]) if words else "")


def _kind(text: str) -> Reaction | None:
    return next((kind for kind in _KINDS if re.search(kind.pattern, text)), None)
