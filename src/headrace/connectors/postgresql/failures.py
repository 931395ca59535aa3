"""Errors of PostgreSQL and libpq, with cause, sentence and hint.

An error of a statement has PostgreSQL's SQLSTATE. An error of a connection has only libpq's text, whose patterns identify the failed
step. A closed port and any server other than PostgreSQL cause the same error, so that users who may create stores cannot explore the
network with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import psycopg

from headrace.connectors.postgresql.options import address
from headrace.connectors.reaction import Reaction
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.sqlstate import SqlState

_PREFIX = re.compile(r"^(connection failed: )?(connection to server at .*? failed: )?", re.DOTALL)


_AWAY = SqlState.REMOTE_UNAVAILABLE
_UNREACHABLE = Reaction(
    r"refused|timeout|closed the connection|invalid response|expected authentication|not send|not receive|unreachable|No route"
    r"|reset by peer|lost synchronization|broken pipe",
    ExternalError,
    _AWAY,
    "{server} did not answer as PostgreSQL",
    "Check the host and port in 'uris', the network, and that the server listens there.",
)
_CONNECTING = (
    Reaction(
        r"resolve host",
        ExternalError,
        _AWAY,
        "the host name of {server} is not known",
        "Check 'uris', and that the name can be resolved from where Headrace runs.",
    ),
    Reaction(
        r"does not support SSL",
        ExternalError,
        _AWAY,
        "{server} does not speak TLS",
        "Turn TLS on in the server, or use 'tls.disabled' = TRUE where the network is trusted.",
    ),
    Reaction(
        r"does not match host name",
        ExternalError,
        _AWAY,
        "the certificate of {server} is for another host",
        "Use the name that the certificate is for in 'uris', or 'tls.verify_server_hostname' = FALSE.",
        detail=True,
    ),
    Reaction(
        r"certificate verify failed|signature failure|root certificate",
        ExternalError,
        _AWAY,
        "the certificate of {server} is not trusted",
        "Check 'tls.ca_cert_file', the authorities to trust; without it, public authorities are trusted.",
    ),
    Reaction(
        r"certificate|private key|SSL error|tlsv1",
        ExternalError,
        _AWAY,
        "there is no safe connection to {server}",
        "Check 'tls.ca_cert_file', 'tls.client.cert_file' and 'tls.client.key_file'.",
        detail=True,
    ),
    _UNREACHABLE,
    Reaction(
        r"database \".*\" does not exist",
        UserError,
        SqlState.ENTITY_NOT_FOUND,
        "there is no such database at {server}",
        "LIST ENTITIES lists the databases; the store's default is in its 'uris'.",
        detail=True,
    ),
    Reaction(
        r"pg_hba\.conf.*no encryption",
        ExternalError,
        _AWAY,
        "{server} asks for TLS",
        "Leave 'tls.disabled' out.",
    ),
    Reaction(
        r"authentication failed|password|pg_hba\.conf|role \".*\" (does not exist|is not permitted)",
        ExternalError,
        _AWAY,
        "{server} refused the store's user",
        "Check 'postgres.username' and 'postgres.password', and that the server's pg_hba.conf lets them in from here.",
        detail=True,
    ),
    Reaction(
        r"",
        ExternalError,
        _AWAY,
        "{server} refused the connection",
        "See the server's log for details.",
        detail=True,
    ),
)
# By SQLSTATE, the longest first.
_ANSWERS = (
    Reaction(
        "42P01",
        UserError,
        SqlState.ENTITY_NOT_FOUND,
        "there is no such table at {server}",
        "LIST ENTITIES IN database.schema lists the tables.",
        detail=True,
    ),
    Reaction(
        "3F000",
        UserError,
        SqlState.ENTITY_NOT_FOUND,
        "there is no such schema at {server}",
        "LIST ENTITIES IN database lists its schemas.",
        detail=True,
    ),
    Reaction(
        "42P07",
        UserError,
        SqlState.DUPLICATE_ENTITY,
        "the table already exists",
        "Choose another name, or drop it first.",
        detail=True,
    ),
    Reaction(
        "2BP01",
        UserError,
        SqlState.DEPENDENT_OBJECTS_EXIST,
        "PostgreSQL keeps the table, since others of its objects need it",
        "Drop them first, in PostgreSQL.",
        detail=True,
    ),
    Reaction(
        "42501",
        ExternalError,
        _AWAY,
        "the store's user lacks a right at {server}",
        "Grant the right to the user in PostgreSQL.",
        detail=True,
    ),
    Reaction(
        "55006",
        ExternalError,
        _AWAY,
        "the replication slot is in use at {server}",
        "One query reads a slot at a time: stop the other, or name another slot with 'postgresql.slot.name'.",
        detail=True,
    ),
    Reaction(
        "42703",
        UserError,
        SqlState.UNDEFINED_COLUMN,
        "the table has no such column",
        "DESCRIBE ENTITY lists its columns.",
        detail=True,
    ),
    Reaction(
        "42",
        UserError,
        SqlState.INVALID_RELATION_DEFINITION,
        "the table is not what it was declared to be",
        "DESCRIBE ENTITY shows what it is now; create the relation again, or change the table in PostgreSQL.",
        detail=True,
    ),
    Reaction(
        "22",
        UserError,
        SqlState.DATA_EXCEPTION,
        "PostgreSQL refused a value",
        "DESCRIBE ENTITY shows the types of the table's columns.",
        detail=True,
    ),
    Reaction(
        "23",
        UserError,
        SqlState.DATA_EXCEPTION,
        "a constraint of the table refused a row",
        "Change the row, or the constraint in PostgreSQL.",
        detail=True,
    ),
    Reaction("08", _UNREACHABLE.error, _AWAY, _UNREACHABLE.message, _UNREACHABLE.hint),
    Reaction(
        "57P",
        ExternalError,
        _AWAY,
        "{server} is starting or stopping",
        "A continuous query retries automatically.",
        detail=True,
    ),
    Reaction(
        "53",
        ExternalError,
        _AWAY,
        "{server} has no room for this now",
        "A continuous query retries automatically; free slots, connections, memory or disk there, or allow more of them.",
        detail=True,
    ),
    Reaction(
        "",
        ExternalError,
        _AWAY,
        "PostgreSQL at {server} reported an error",
        "See the server's log for details.",
        detail=True,
    ),
)


@contextmanager
def classified(store: Mapping[str, str]) -> Iterator[None]:
    """Translate psycopg's errors into ours, without SQL or secrets."""
    try:
        yield
    except psycopg.Error as error:
        raise classify(error, store) from None


def classify(error: psycopg.Error, store: Mapping[str, str]) -> HeadraceError:
    """Return an error of a connection to a store, or of connecting to it."""
    place = address(store["uris"])
    server = f"{place.host}:{place.port}"
    if error.sqlstate is not None:
        kind = next(kind for kind in _ANSWERS if error.sqlstate.startswith(kind.pattern))
        return kind.as_error(error.diag.message_primary or error.sqlstate, server)
    text = _PREFIX.sub("", str(error))
    kind = next(kind for kind in _CONNECTING if re.search(kind.pattern, text, re.IGNORECASE))
    return kind.as_error(
        text.partition("\n")[0].partition("FATAL:")[2].strip() or text.partition("\n")[0], server
    )
