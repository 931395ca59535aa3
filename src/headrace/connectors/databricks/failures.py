"""Errors of a warehouse and its client, with cause, sentence and hint.

Spark and Databricks name their conditions alike, in brackets: `[TABLE_OR_VIEW_NOT_FOUND] The table …`.
"""

from __future__ import annotations

import re
import ssl

from headrace.connectors.reaction import Reaction
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.sqlstate import SqlState

_AWAY = SqlState.REMOTE_UNAVAILABLE
_DETAIL_LENGTH_MAX = 400
_CONDITION = re.compile(r"\[([A-Z_][A-Z0-9_.]+)\]")
_END = re.compile(r"( SQLSTATE: \w{5}|\n).*", re.DOTALL)
_RECEIVED = "Check 'uris' and 'databricks.warehouse_port', and that the workspace can be reached from where Headrace runs."
_REFUSED = frozenset((401, 403))
_MISSING = frozenset((400, 404))

_KINDS = (
    Reaction(
        r"COPY_INTO|PATH_NOT_FOUND|FAILED_READ_FILE|FAILED_TO_CREATE_PLAN_FOR_DIRECT_QUERY|LOCATION_OVERLAP|CLOUD_FILE"
        r"|EXTERNAL_LOCATION|UNAUTHORIZED_ACCESS.*s3:|INVALID_PARAMETER_VALUE.*LOCATION|UC_FILE_SCHEME|CANNOT_ACCESS_PATH",
        ExternalError,
        _AWAY,
        "bucket: the warehouse cannot use files of the store's bucket",
        "Create an external location for the bucket in Unity Catalog, and grant the user READ FILES on it; "
        "tables in the bucket also need CREATE EXTERNAL TABLE.",
        detail=True,
    ),
    Reaction(
        r"INSUFFICIENT_PERMISSIONS|PERMISSION_DENIED|UNAUTHORIZED|does not have (permission|privilege)|User lacks",
        ExternalError,
        _AWAY,
        "permission: Unity Catalog does not allow this to the store's user",
        "GRANT USE CATALOG, USE SCHEMA, SELECT and MODIFY there; to create tables, also CREATE TABLE.",
        detail=True,
    ),
    Reaction(
        # 1126 is what open Spark calls it.
        r"SCHEMA_NOT_FOUND|CATALOG_NOT_FOUND|_LEGACY_ERROR_TEMP_1126|NO_SUCH_CATALOG|REQUIRES_SINGLE_PART_NAMESPACE",
        UserError,
        SqlState.ENTITY_NOT_FOUND,
        "there is no such catalog or schema",
        "LIST ENTITIES shows the catalogs, LIST ENTITIES IN catalog its schemas.",
        detail=True,
    ),
    Reaction(
        r"TABLE_OR_VIEW_NOT_FOUND|DELTA_TABLE_NOT_FOUND|DELTA_MISSING_DELTA_TABLE|DELTA_PATH_DOES_NOT_EXIST|UNRESOLVED_RELATION",
        UserError,
        SqlState.ENTITY_NOT_FOUND,
        "there is no such table",
        "LIST ENTITIES IN catalog.schema lists its tables.",
        detail=True,
    ),
    Reaction(
        r"ALREADY_EXISTS|DELTA_CREATE_TABLE_SCHEME_MISMATCH|DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION|DELTA_CREATE_TABLE",
        UserError,
        SqlState.DUPLICATE_ENTITY,
        "the table already exists, or another table has its location",
        "Choose another name or location, or drop it first; an external table's files stay when it is dropped.",
        detail=True,
    ),
    Reaction(
        r"INVALID_SCHEMA_OR_RELATION_NAME|INVALID_ATTRIBUTE_NAME_SYNTAX|INVALID_OBJECT_NAME|IDENTIFIER_TOO",
        UserError,
        SqlState.INVALID_PARAMETER,
        "Databricks does not accept the name",
        "Use letters, digits and underscores.",
        detail=True,
    ),
    Reaction(
        r"CAST_|OVERFLOW|OUT_OF_RANGE|DELTA_NOT_NULL_CONSTRAINT|NOT_NULL_ASSERT|CHECK_CONSTRAINT|EXCEED_LIMIT_LENGTH|DELTA_VIOLATE_CONSTRAINT",
        UserError,
        SqlState.DATA_EXCEPTION,
        "Databricks refused a value",
        "DESCRIBE ENTITY shows the types of the table's columns. Leave such rows out with WHERE, or change the table.",
        detail=True,
    ),
    Reaction(
        r"UNRESOLVED_COLUMN|SCHEMA_CHANGE|SCHEMA_MISMATCH|METADATA_MISMATCH|INCOMPATIBLE_DATA|DATATYPE_MISMATCH|DELTA_METADATA_CHANGED"
        r"|DELTA_FAILED_TO_MERGE_FIELDS|NOT_ENOUGH_DATA_COLUMNS",
        UserError,
        SqlState.INVALID_RELATION_DEFINITION,
        "the table is not what it was declared to be",
        "DESCRIBE ENTITY shows what it is now; create the relation again, or change the table.",
        detail=True,
    ),
    Reaction(
        r"DELTA_CONCURRENT|CONCURRENT_|ConcurrentAppend|ConcurrentDelete|ConcurrentTransaction|ConcurrentModification",
        ExternalError,
        _AWAY,
        "another writer changed the table at the same time",
        "A continuous query retries automatically, from the table's new state.",
    ),
)


def of_statement(text: str) -> HeadraceError:
    """Return the error of a statement, without its stack trace or the statement."""
    condition = _CONDITION.search(text)
    detail = _END.sub("", text[text.rfind(condition[0]) + len(condition[0]) :] if condition else text).strip()
    detail = detail[:_DETAIL_LENGTH_MAX].rstrip(".")
    named = f"{condition[1]} {detail}" if condition else text
    kind = next((kind for kind in _KINDS if re.search(kind.pattern, named)), None)
    if kind is None:
        return ExternalError(
            _AWAY,
            f"the warehouse reported {condition[1] if condition else 'an error'}: {detail}",
            hint="The workspace's query history has the statement.",
        )
    return kind.as_error(detail)


def of_status(status: int | None, server: str) -> ExternalError:
    """Return the error of an HTTP status instead of an answer to the start of a session."""
    if status in _REFUSED:
        return ExternalError(
            _AWAY,
            f"authentication: {server} refused the store's token or client",
            hint="Check 'databricks.app_token', or 'databricks.oauth.client_id' and its secret: they expire, and need CAN USE there.",
        )
    if status in _MISSING:
        return ExternalError(
            _AWAY,
            f"warehouse: {server} has no such SQL warehouse",
            hint="Check 'databricks.warehouse_id': it is the last part of the warehouse's HTTP path.",
        )
    return no_warehouse(server)


def no_warehouse(server: str) -> ExternalError:
    """Return error 57015 for silence, and for an answer that is not a warehouse's."""
    return ExternalError(_AWAY, f"{server} did not answer as a SQL warehouse", hint=_RECEIVED)


def of_network(error: OSError, server: str) -> ExternalError:
    """Return the error of a failed connection: the network, or TLS."""
    if not isinstance(error, ssl.SSLError):
        return ExternalError(_AWAY, f"network: there is no connection to {server}", hint=_RECEIVED)
    reason = getattr(error, "verify_message", "") or "the server does not speak TLS as expected"
    return ExternalError(
        _AWAY,
        f"TLS: there is no safe connection to {server}: {reason}",
        hint="Check host and port, and 'tls.ca_cert_file' (the authorities to trust).",
    )
