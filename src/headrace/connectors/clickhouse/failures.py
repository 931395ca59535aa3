"""Errors of ClickHouse and of the connection to it, with cause, sentence and hint.

ClickHouse's own errors have a number. Every server that is not ClickHouse causes the same error, so that users who may create stores
cannot explore the network with them.
"""

from __future__ import annotations

import re
import ssl

import httpx

from headrace.connectors.reaction import Reaction
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.sqlstate import SqlState

DETAIL_LENGTH_MAX = 500
# "Code: 60. DB::Exception: Code: 60. DB::Exception: Table d.t does not exist. (UNKNOWN_TABLE) (version 26.9.2.1)."
_BEFORE = re.compile(r"^(Code: \d+\. )?(DB::\w+: (Code: \d+\. DB::\w+: )?)?", re.DOTALL)
_AFTER = re.compile(
    r"(: )?(\(in (file/uri|query) .*|\([A-Z_]{4,}\)\.? ?(\(version .*)?|(Stack trace:|While executing|read stage:) ?.*)",
    re.DOTALL,
)
_AWAY = SqlState.REMOTE_UNAVAILABLE
_RECEIVED = "Check host and port in 'uris' (the port is that of the HTTP interface), the network, and that the server listens there."


_KINDS = (
    Reaction(
        "516|192|193|194",
        ExternalError,
        _AWAY,
        "authentication: {server} refused the store's user",
        "Check 'clickhouse.username' and 'clickhouse.password'.",
        detail=True,
    ),
    Reaction(
        "497|291",
        ExternalError,
        _AWAY,
        "the store's user lacks a right at {server}",
        "Grant the right to the user in ClickHouse.",
        detail=True,
    ),
    Reaction(
        "81",
        UserError,
        SqlState.ENTITY_NOT_FOUND,
        "there is no such database at {server}",
        "LIST ENTITIES lists the databases; the store's default is in its 'uris'.",
        detail=True,
    ),
    Reaction(
        "60|218",
        UserError,
        SqlState.ENTITY_NOT_FOUND,
        "there is no such table at {server}",
        "LIST ENTITIES IN database lists its tables.",
        detail=True,
    ),
    Reaction(
        "57",
        UserError,
        SqlState.DUPLICATE_ENTITY,
        "the table already exists",
        "Choose another name, or drop it first.",
        detail=True,
    ),
    Reaction(
        "16|47|8|10",
        UserError,
        SqlState.UNDEFINED_COLUMN,
        "the table has no such column",
        "DESCRIBE ENTITY lists its columns.",
        detail=True,
    ),
    Reaction(
        "6|26|27|33|38|41|53|69|70|72|117|131|190|321|349|376|407|429|469|675|676|691",
        UserError,
        SqlState.DATA_EXCEPTION,
        "ClickHouse refused a value",
        "DESCRIBE ENTITY shows the types of the table's columns.",
        detail=True,
    ),
    Reaction(
        "630",
        UserError,
        SqlState.DEPENDENT_OBJECTS_EXIST,
        "ClickHouse does not drop the table: other objects depend on it",
        "Drop those objects in ClickHouse first.",
        detail=True,
    ),
    Reaction(
        "48|344|36|80",
        UserError,
        SqlState.FEATURE_NOT_SUPPORTED,
        "ClickHouse does not support the statement for the table's engine",
        "DESCRIBE ENTITY shows its engine.",
        detail=True,
    ),
    Reaction(
        "252|241|202|159|160|209|210|243|242|319|999|285|286|225|164",
        ExternalError,
        _AWAY,
        "{server} has no room or time for this now, or does not accept writes",
        "A continuous query retries automatically; ClickHouse's system tables show what it is busy with.",
        detail=True,
    ),
)


def of_clickhouse(code: int, text: str, server: str) -> HeadraceError:
    """Return an error that ClickHouse answered, without a word of SQL."""
    kind = next((kind for kind in _KINDS if re.fullmatch(kind.pattern, str(code))), None)
    detail = f"{_detail(text)} (ClickHouse error {code})"
    if kind is None:
        return ExternalError(
            _AWAY,
            f"ClickHouse at {server} reported an error: {detail}",
            hint="See the server's log for details.",
        )
    return kind.as_error(detail, server)


def of_network(error: httpx.HTTPError, server: str) -> ExternalError:
    """Return the error of a failed exchange: the name, the network, or TLS."""
    reason = _tls_reason(error)
    if reason is not None:
        return ExternalError(
            _AWAY,
            f"TLS: there is no safe connection to {server}: {reason}",
            hint="Check 'tls.ca_cert_file' (the authorities to trust), and host and port in 'uris'; "
            "'tls.disabled' = TRUE is for servers without TLS.",
        )
    return no_clickhouse(server)


def no_clickhouse(server: str) -> ExternalError:
    """Return error 57015 for silence, and for an answer that is not ClickHouse's."""
    return ExternalError(_AWAY, f"{server} did not answer as ClickHouse", hint=_RECEIVED)


def _detail(text: str) -> str:
    """Return the first sentence of the error's own text."""
    detail = _AFTER.sub("", _BEFORE.sub("", text.strip())).strip().rstrip(".:")
    return detail.partition("\n")[0][:DETAIL_LENGTH_MAX]


def _tls_reason(error: BaseException | None) -> str | None:
    """Return the reason of a TLS failure, None for any other."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return error.verify_message
        if isinstance(error, ssl.SSLError):
            return "the server does not speak TLS as expected"
        error = error.__cause__ or error.__context__
    return None
