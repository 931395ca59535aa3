"""Errors of Oracle and of its driver, with cause, sentence and hint.

Oracle's own errors are ORA-00942 and the like, the driver's DPY-4011. A failed connection is DPY-6005, followed by
the cause, which is another code or a message of the operating system.
"""

from __future__ import annotations

import re

from headrace.connectors.reaction import Reaction
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.sqlstate import SqlState

_AWAY = SqlState.REMOTE_UNAVAILABLE
_WORDS_MAX = 300
_UNANSWERED = Reaction(
    "",
    ExternalError,
    _AWAY,
    "{server} did not answer as Oracle",
    "Check the host and port in 'uris', the network, and that the listener is there.",
)
_STOPPING = Reaction(
    r"ORA-(01033|01034|01089|01090|01092|27101)",
    ExternalError,
    _AWAY,
    "the database at {server} is starting or stopping",
    "A continuous query retries automatically.",
    detail=True,
)
# Searched in the driver's whole message; the first match counts.
_CONNECTING = (
    Reaction(
        r"DPY-6001|DPY-6003",
        ExternalError,
        _AWAY,
        "service: the listener at {server} knows none of that name",
        "Check the service in 'uris', or 'oracle.db.name'; "
        "`lsnrctl services` lists the services; a database that has just started may be missing.",
    ),
    Reaction(
        r"DPY-6000",
        ExternalError,
        _AWAY,
        "the listener at {server} refused the connection",
        "It has no free process for it, or the database takes no connections now. A continuous query retries automatically.",
        detail=True,
    ),
    Reaction(
        r"ORA-01017|DPY-4001",
        ExternalError,
        _AWAY,
        "authentication: {server} refused the store's user",
        "Check 'oracle.username' and 'oracle.password'.",
    ),
    Reaction(
        r"ORA-28000|ORA-28001|ORA-28003|ORA-28007",
        ExternalError,
        _AWAY,
        "authentication: {server} has locked the store's user, or its password has expired",
        "Have the user unlocked, or its password changed, in Oracle.",
        detail=True,
    ),
    Reaction(
        r"ORA-01045",
        ExternalError,
        _AWAY,
        "authentication: the store's user may not connect to {server}",
        "GRANT CREATE SESSION to it in Oracle.",
    ),
    Reaction(
        r"DPY-3015",
        ExternalError,
        _AWAY,
        "authentication: {server} stores the user's password in the format of Oracle 10",
        "Set the user's password again: Oracle then stores it in a current format.",
    ),
    Reaction(
        r"DPY-3001",
        ExternalError,
        _AWAY,
        "{server} requires a protocol that the thin driver does not support",
        "The usual cause is Native Network Encryption: "
        "use TLS, or set SQLNET.ENCRYPTION_SERVER and CRYPTO_CHECKSUM_SERVER to another value than REQUIRED.",
        detail=True,
    ),
    Reaction(
        r"DPY-3010",
        ExternalError,
        _AWAY,
        "{server} is older than Oracle 12.1",
        "The thin driver requires Oracle 12.1 or later.",
    ),
    Reaction(
        r"CERTIFICATE_VERIFY_FAILED|DPY-6006",
        ExternalError,
        _AWAY,
        "TLS: the certificate of {server} is not to be trusted",
        "Specify the authority as 'tls.ca_cert_file'; the certificate must be for the host of 'uris'.",
    ),
    Reaction(
        r"\[SSL",
        ExternalError,
        _AWAY,
        "TLS: {server} does not speak TLS on this port",
        "Use the listener's port for TCPS, or set 'tls.disabled' to TRUE.",
    ),
    _STOPPING,
    _UNANSWERED,
)
# By code; the first that fits.
_ANSWERS = (
    Reaction(
        r"ORA-(00942|01918|04043|00943)",
        UserError,
        SqlState.ENTITY_NOT_FOUND,
        "there is no such schema or table, or the store's user may not see it",
        "LIST ENTITIES lists the schemas and tables that the store's user may read.",
        detail=True,
    ),
    Reaction(
        r"ORA-00955",
        UserError,
        SqlState.DUPLICATE_ENTITY,
        "the table already exists",
        "Choose another name, or drop it first.",
    ),
    Reaction(
        r"ORA-00904",
        UserError,
        SqlState.UNDEFINED_COLUMN,
        "the table has no such column",
        "DESCRIBE ENTITY lists its columns.",
        detail=True,
    ),
    Reaction(
        r"ORA-(01031|01950|41900|01749|00990|01720)",
        ExternalError,
        _AWAY,
        "the store's user lacks a right at {server}",
        "Grant the right to the user in Oracle.",
        detail=True,
    ),
    Reaction(
        r"ORA-(00001|01400|01401|01407|01426|01438|01455|01461|01722|018[3-7]\d|02290|02291|02292|12899|22835|25137|32795|40441|54013|64203)|DPY-8\d{3}",
        UserError,
        SqlState.DATA_EXCEPTION,
        "Oracle refused a value",
        "DESCRIBE ENTITY shows the types of the table's columns. Oracle has no empty text: '' is NULL there.",
        detail=True,
    ),
    Reaction(
        r"ORA-(00902|00910|00957|00972|01450|01727|02261|02329|43853)",
        UserError,
        SqlState.INVALID_RELATION_DEFINITION,
        "Oracle refused to create the table",
        "Choose other names or types; docs/guides/oracle.md has the table of types.",
        detail=True,
    ),
    Reaction(
        r"ORA-(00932|00947|00913|01733|01779|38104)",
        UserError,
        SqlState.INVALID_RELATION_DEFINITION,
        "the table is not what it was declared to be",
        "DESCRIBE ENTITY shows what it is now; create the relation again, or change the table in Oracle.",
        detail=True,
    ),
    Reaction(
        r"ORA-(01466|01555|08180|08181|22924)",
        ExternalError,
        _AWAY,
        "{server} no longer keeps the table's state of the time when the query started to read",
        "Run the statement again; to retain earlier states longer, raise UNDO_RETENTION in Oracle.",
        detail=True,
    ),
    Reaction(
        r"ORA-(00018|00020|00054|00060|01013|01536|0165\d|04021|04031|08177|30006|02049)|DPY-4024",
        ExternalError,
        _AWAY,
        "{server} ended the statement, or has no room or time for it now",
        "A continuous query retries automatically.",
        detail=True,
    ),
    _STOPPING,
    Reaction(
        r"DPY-4011|DPY-1001|ORA-(00028|01012|0211[0-9]|02396|02399|03113|03114|03135|12\d{3})",
        ExternalError,
        _AWAY,
        "{server} closed the connection",
        "A continuous query retries automatically.",
    ),
    Reaction(
        r"DPY-.*",
        UserError,
        SqlState.DATA_EXCEPTION,
        "Oracle cannot return a value",
        "Leave the column out, or declare it as VARCHAR, which takes Oracle's own text of a value.",
        detail=True,
    ),
    Reaction(
        "",
        ExternalError,
        _AWAY,
        "Oracle at {server} reported an error",
        "See the database's log for details.",
        detail=True,
    ),
)


def of_connecting(code: str, text: str, server: str) -> HeadraceError:
    """Return the error of a session that was not opened."""
    kind = next(kind for kind in _CONNECTING if re.search(kind.pattern, f"{code} {text}"))
    similar = re.search(r"Similar to (ORA-\d{5})", text)
    # The first line of DPY-6005 contains a connection's number, and the next lines the cause.
    below = text.partition("DPY-6005")[2].partition("\n")[2] or text
    return kind.as_error(similar[1] if similar else _words(below), server)


def of_oracle(code: str, text: str, server: str) -> HeadraceError:
    """Return an error of a statement, without a word of SQL or of a secret."""
    kind = next(kind for kind in _ANSWERS if not kind.pattern or re.fullmatch(kind.pattern, code))
    return kind.as_error(f"{_words(text)} ({code})", server)


def unanswered(server: str) -> HeadraceError:
    """Return error 57015 if nothing listens, or nothing is answered."""
    return _UNANSWERED.as_error(server=server)


def _words(text: str) -> str:
    """Return the first line, without its code."""
    lines = [re.sub(r"^(ORA|DPY)-\d+: ", "", line.strip()) for line in text.splitlines()]
    return next((line for line in lines if line), "")[:_WORDS_MAX].rstrip(".")
