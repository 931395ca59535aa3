"""Errors of Snowflake and of its client, with cause, sentence and hint.

Snowflake's own errors have a number and a SQLSTATE, the client's numbers begin at 250000.
"""

from __future__ import annotations

import re

from headrace.connectors.reaction import Reaction
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.sqlstate import SqlState

_AWAY = SqlState.REMOTE_UNAVAILABLE
_WORDS_MAX = 500
_UNREACHABLE = Reaction(
    r"",
    ExternalError,
    _AWAY,
    "{server} did not answer as Snowflake",
    "Check the account in 'uris', the network, and the account's network policies.",
)
# By number; the first that fits.
_NUMBERS = (
    Reaction(
        r"39014[0-9]|250005|251008",
        ExternalError,
        _AWAY,
        "authentication: {server} refused the user's key",
        "Check 'snowflake.username', and that the user's RSA_PUBLIC_KEY in Snowflake belongs to 'snowflake.client.key_file'.",
    ),
    Reaction(
        r"3903\d\d|3943\d\d|390195",
        ExternalError,
        _AWAY,
        "authentication: {server} refused the store's token",
        "Check 'snowflake.token': it may have expired, or the account may require a network policy for tokens.",
        detail=True,
    ),
    Reaction(
        r"390189|390186|390201",
        ExternalError,
        _AWAY,
        "authentication: {server} refused the role to the user",
        "Check 'snowflake.role_name', and that the role is granted to the user.",
        detail=True,
    ),
    Reaction(
        r"3901\d\d|3902\d\d",
        ExternalError,
        _AWAY,
        "authentication: {server} refused the store's user",
        "Check 'snowflake.username' and 'snowflake.password'; use a key if the account requires a second factor.",
    ),
    Reaction(
        r"606|607|609",
        ExternalError,
        _AWAY,
        "{server} has no warehouse that runs the statement",
        "Check 'snowflake.warehouse_name', that the role may use the warehouse, and that AUTO_RESUME is on.",
        detail=True,
    ),
    Reaction(
        r"2002|2012",
        UserError,
        SqlState.DUPLICATE_ENTITY,
        "the table already exists",
        "Choose another name, or drop it first.",
        detail=True,
    ),
    Reaction(
        r"3001|3003|3041",
        ExternalError,
        _AWAY,
        "the store's role lacks a right at {server}",
        "Grant the right to the role in Snowflake.",
        detail=True,
    ),
    Reaction(
        r"2003|2043",
        UserError,
        SqlState.ENTITY_NOT_FOUND,
        "there is no such database, schema or table at {server}, or the store's role may not see it",
        "LIST ENTITIES lists the objects that the store's role may read.",
        detail=True,
    ),
    Reaction(
        r"904|2028|1789",
        UserError,
        SqlState.UNDEFINED_COLUMN,
        "the table has no such column",
        "DESCRIBE ENTITY lists its columns.",
        detail=True,
    ),
    Reaction(
        r"1000\d\d|1001\d\d|1003\d\d|22\d\d\d|2023",
        UserError,
        SqlState.DATA_EXCEPTION,
        "Snowflake refused a value",
        "DESCRIBE ENTITY shows the types of the table's columns.",
        detail=True,
    ),
    Reaction(
        r"625|604|630|57014|1044|90073",
        ExternalError,
        _AWAY,
        "{server} ended the statement, or has no room or time for it now",
        "A continuous query retries automatically; Snowflake's query history shows the reason.",
        detail=True,
    ),
)
# Of other numbers by SQLSTATE.
_STATES = (
    Reaction(
        "22|23",
        UserError,
        SqlState.DATA_EXCEPTION,
        "Snowflake refused a value",
        "DESCRIBE ENTITY shows the types of the table's columns.",
        detail=True,
    ),
    Reaction(
        "42",
        UserError,
        SqlState.INVALID_RELATION_DEFINITION,
        "the table is not what it was declared to be",
        "DESCRIBE ENTITY shows what it is now; create the relation again, or change the table in Snowflake.",
        detail=True,
    ),
    Reaction(
        "",
        ExternalError,
        _AWAY,
        "Snowflake at {server} reported an error",
        "See Snowflake's query history for details.",
        detail=True,
    ),
)
_CLIENT_NUMBERS = range(250000, 300000)
_BEFORE = re.compile(
    r"^(\d{6} \(\w{5}\): )?([0-9a-f-]{36}: )?(SQL (compilation|execution) error:\s*)?(error line \d+ at position \d+\s*)?"
)


def of_snowflake(number: int, state: str, text: str, server: str) -> HeadraceError:
    """Return an error of Snowflake's, or of its client's, without a word of SQL or of a secret."""
    kind = next((one for one in _NUMBERS if re.fullmatch(one.pattern, str(number))), None)
    if kind is None and (number <= 0 or number in _CLIENT_NUMBERS):
        kind = _UNREACHABLE
    if kind is None:
        kind = next(one for one in _STATES if re.match(one.pattern, state))
    return kind.as_error(f"{_words(text)} (Snowflake error {number})", server)


def _words(text: str) -> str:
    """Return the first non-empty line of the error's text."""
    words = _BEFORE.sub("", text.strip())
    return next((line.strip() for line in words.splitlines() if line.strip()), "")[:_WORDS_MAX].rstrip(".")
