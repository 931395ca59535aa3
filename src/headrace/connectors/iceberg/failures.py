"""Errors of catalogs, S3 and Iceberg, with cause, sentence and hint: one table for both halves.

Errors of catalogs have a type, errors of AWS a code, and Java's exceptions a class; the patterns match all three.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from botocore.exceptions import BotoCoreError, ClientError

from headrace.connectors.reaction import Reaction
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.sqlstate import SqlState

_AWAY = SqlState.REMOTE_UNAVAILABLE
_KINDS = (
    Reaction(
        r"NoSuchNamespaceException|Namespace does not exist|EntityNotFoundException.*Database",
        UserError,
        SqlState.ENTITY_NOT_FOUND,
        "there is no such namespace in the catalog",
        "LIST ENTITIES lists the namespaces; CREATE ENTITY namespace creates one.",
    ),
    Reaction(
        r"NoSuchTableException|Table does not exist|TABLE_OR_VIEW_NOT_FOUND|EntityNotFoundException",
        UserError,
        SqlState.ENTITY_NOT_FOUND,
        "there is no such table in the catalog",
        "LIST ENTITIES IN namespace lists the tables. If the table was dropped, create it again, then RESTART QUERY.",
    ),
    Reaction(
        r"AlreadyExistsException",
        UserError,
        SqlState.DUPLICATE_ENTITY,
        "the table or namespace already exists",
        "Choose another name, or drop it first.",
    ),
    Reaction(
        r"NamespaceNotEmptyException",
        UserError,
        SqlState.DEPENDENT_OBJECTS_EXIST,
        "the namespace has tables",
        "Drop them first.",
    ),
    Reaction(
        r"CommitFailedException|CommitStateUnknownException|ConcurrentModification|Found conflicting files"
        r"|Missing required files to delete",
        ExternalError,
        _AWAY,
        "another writer changed the table at the same time",
        "A continuous query retries automatically, from the table's new state.",
    ),
    Reaction(
        r"GC is disabled",
        UserError,
        SqlState.FEATURE_NOT_SUPPORTED,
        "the table's property gc.enabled is false: its files may belong to other tables too, and no snapshot is removed",
        "Leave 'iceberg.snapshot.retention.ms' out.",
    ),
    Reaction(
        r"Cannot process (overwrite|delete) snapshot",
        UserError,
        SqlState.FEATURE_NOT_SUPPORTED,
        "a commit changed or deleted rows of the table, and a stream has only what is appended",
        "Read it as a TABLE, start at 'starting.position' = 'latest', or leave such commits out with 'iceberg.skip.changes' = TRUE.",
    ),
    Reaction(
        r"Table UUID does not match",
        UserError,
        SqlState.DATA_EXCEPTION,
        "rows may be missing: the table was deleted and created again, or another one has its name now",
        "TERMINATE the query and create it again: it then starts at the starting position of its source.",
    ),
    Reaction(
        r"snapshot was expired or removed|not an ancestor of table's current snapshot|Cannot find (parent )?snapshot"
        r'|Snapshot\.parentId\(\)" is null',
        UserError,
        SqlState.DATA_EXCEPTION,
        "rows may be missing: the snapshot up to which the query has read the table is not in its history any more",
        "The table was rolled back or replaced, or the snapshot has expired. TERMINATE the query and create it again: it then "
        "starts at its starting position. After a roll-back, RESTART QUERY continues once the snapshot is in the history again.",
    ),
    Reaction(
        r"SignatureDoesNotMatch|InvalidAccessKeyId|UnrecognizedClient|InvalidClientTokenId|InvalidSignature|InvalidToken|ExpiredToken"
        r"|AuthFailure|IncompleteSignature",
        ExternalError,
        _AWAY,
        "authentication: AWS refused the store's keys",
        "Check 'aws.access_key_id' and 'aws.secret_access_key', or the keys that the catalog vends.",
    ),
    Reaction(
        r"AccessDenied|Access Denied|not authorized to perform|S3Exception.*Status Code: 403",
        ExternalError,
        _AWAY,
        "authorization: AWS does not allow this to the store's keys",
        "Let them list, read, write and delete in the bucket, and with ICEBERG_GLUE read and change the tables.",
    ),
    Reaction(
        r"NoSuchBucket|The specified bucket does not exist",
        ExternalError,
        _AWAY,
        "there is no such bucket",
        "Check where the catalog puts its tables, 'iceberg.warehouse.default_path', and 'iceberg.s3.endpoint'.",
    ),
    Reaction(
        r"NotAuthorizedException|Not authorized|HTTP 401|invalid_client|unauthorized_client|invalid_grant|invalid_scope",
        ExternalError,
        _AWAY,
        "authentication: the catalog refused the credentials",
        "Check 'iceberg.rest.client_id', 'iceberg.rest.client_secret' and 'iceberg.rest.client_scope', or 'iceberg.rest.token'.",
    ),
    Reaction(
        r"ForbiddenException|Forbidden|HTTP 403",
        ExternalError,
        _AWAY,
        "authorization: the catalog does not allow this",
        "Grant the right to the store's client in the catalog.",
    ),
    Reaction(
        r"UnknownHostException|NameResolutionError|Name or service not known|nodename nor servname|Failed to resolve"
        r"|Temporary failure in name resolution",
        ExternalError,
        _AWAY,
        "DNS: a host name of the store is not known",
        "Check 'uris' and 'iceberg.s3.endpoint', and that the names can be resolved from where Headrace runs.",
    ),
    Reaction(
        r"CERTIFICATE_VERIFY_FAILED|PKIX path|SSLHandshakeException|SSLError",
        ExternalError,
        _AWAY,
        "TLS: the certificate of the store is not trusted",
        "Use the host name that the certificate is for; public authorities are trusted.",
    ),
    Reaction(
        r"NullPointerException.*required|Cannot write nullable values to non-null|NOT_NULL_ASSERT|NOT_NULL_CONSTRAINT",
        UserError,
        SqlState.DATA_EXCEPTION,
        "a row has NULL where the table needs a value",
        "Exclude such rows with WHERE … IS NOT NULL, or change the table's column to optional.",
    ),
    Reaction(
        r"INCOMPATIBLE_DATA_FOR_TABLE|Cannot write incompatible|UNRESOLVED_COLUMN|Invalid S3 URI|Unsupported scheme",
        UserError,
        SqlState.INVALID_RELATION_DEFINITION,
        "the table is not what it was declared to be",
        "DESCRIBE ENTITY shows what it is now; create the relation again, or change the table. Its files must be on S3.",
    ),
    Reaction(
        r"ConnectError|Connect(ion)?Timeout|ReadTimeout|RemoteProtocolError|ReadError|ConnectException|Connection refused|Connection reset"
        r"|Unable to execute HTTP request|RESTException|ServiceFailureException|ServiceUnavailableException|EndpointConnectionError"
        r"|SocketTimeoutException|NoHttpResponseException|HTTP 5\d\d|HttpHostConnectException|SlowDown|InternalError|no catalog",
        ExternalError,
        _AWAY,
        "the catalog, or S3, does not answer as such",
        "Check 'uris', https or http in it, 'iceberg.s3.endpoint' and the network.",
    ),
)


class CatalogAnswerError(Exception):
    """Unexpected answer of a REST catalog: its status, and its name of the error."""


@contextmanager
def classified(what: str = "") -> Iterator[None]:
    """Translate httpx's and botocore's errors into Headrace's; the error names the requested object `what`."""
    try:
        yield
    except (httpx.HTTPError, ClientError, BotoCoreError, CatalogAnswerError) as error:
        known = classify(f"{type(error).__name__} {error}", what)
        raise known or ExternalError(
            _AWAY,
            f"the catalog reported an error{f' for {what}' if what else ''} ({type(error).__name__})",
            hint="See the catalog's log for details.",
        ) from None


def classify(text: str, what: str = "") -> HeadraceError | None:
    """Return the error for an exception's text; None if it is unknown."""
    kind = next((kind for kind in _KINDS if re.search(kind.pattern, text, re.DOTALL)), None)
    if kind is None:
        return None
    return kind.error(kind.state, f"{kind.message}: {what}" if what else kind.message, hint=kind.hint)
