"""LIST: projections of system relations, with the column titles that clients read, in their order.

This module handles lists without special syntax; the modules of the kinds handle the others. LIST ENTITIES contacts a store instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter

from headrace.catalog.access import Privilege
from headrace.core.names import SYSTEM_SCHEMA
from headrace.core.resultset import ResultSet, result
from headrace.sql.ast import Statement
from headrace.sql.statements.alert import ListAlerts
from headrace.sql.statements.api_token import ListApiTokens
from headrace.sql.statements.compute_pool import ListComputePools
from headrace.sql.statements.database import ListDatabases
from headrace.sql.statements.descriptor_source import ListDescriptors, ListDescriptorSources
from headrace.sql.statements.function import ListFunctions
from headrace.sql.statements.function_source import ListFunctionSources
from headrace.sql.statements.organization import ListOrganizations
from headrace.sql.statements.query import ListQueries
from headrace.sql.statements.role import ListRoles
from headrace.sql.statements.savepoint import ListSavepoints
from headrace.sql.statements.schema_registry import ListSchemaRegistries
from headrace.sql.statements.secret import ListSecrets
from headrace.sql.statements.store import ListStores
from headrace.sql.statements.user import ListInvitations, ListUsers
from headrace.statements.base import Execution, Outcome, Requirements, handles, nothing, on_organization
from headrace.statements.system import RELATIONS


@dataclass(frozen=True)
class Projection:
    """The list of a kind of objects: which relation of `deltastream.sys` it is of, and that one's columns by their titles."""

    relation: str
    columns: Mapping[str, str]

    async def rows(self, run: Execution, **filters: object) -> ResultSet:
        """Return the rows of the relation whose columns have the values of `filters`; None matches any value."""
        # Some are read from the disk, and some are long.
        return await asyncio.to_thread(self._rows, run, filters)

    def _rows(self, run: Execution, filters: Mapping[str, object]) -> ResultSet:
        relation = RELATIONS[SYSTEM_SCHEMA, self.relation]
        places = relation.places
        tests = [(places[name], value) for name, value in filters.items() if value is not None]
        matching = (row for row in relation.read(run) if all(row[place] == value for place, value in tests))
        chosen = [places[name] for name in self.columns.values()]
        types = [relation.columns[place].type for place in chosen]
        return result(list(zip(self.columns, types, strict=True)), map(itemgetter(*chosen), matching))


_TIMES = {"CreatedAt": "created_at", "UpdatedAt": "updated_at"}
_OWNED = {"Owner": "owner", **_TIMES}

API_TOKENS = Projection(
    "api_tokens",
    {"Name": "name", "Role": "role_name", "User": "user_name", **_TIMES, "ExpiresAt": "expires_at"},
)
COMPUTE_POOLS = Projection(
    "compute_pools",
    {
        "Name": "name",
        "Size": "size",
        "IntendedState": "intended_state",
        "ActualState": "actual_state",
        "ErrorMessages": "error_messages",
        "Timeout": "timeout",
        **_OWNED,
        "Master": "master",
        "Executors": "executors",
        "Slots": "slots",
        "SlotsUsed": "slots_used",
        "SlotsFree": "slots_free",
        "ExecutorsMin": "executors_min",
        "ExecutorsMax": "executors_max",
    },
)
DATABASES = Projection(
    "databases", {"Name": "name", "IsDefault": "is_default", "Owner": "owner", "CreatedAt": "created_at"}
)
DESCRIPTORS = Projection(
    "descriptors", {"Name": "name", "Source": "source_name", "Owner": "owner", "CreatedAt": "created_at"}
)
DESCRIPTOR_SOURCES = Projection(
    "descriptor_sources", {"Name": "name", "Type": "type", "Url": "url", "Tags": "tags", **_OWNED}
)
FUNCTIONS = Projection(
    "functions",
    {
        "Name": "name",
        "Signature": "signature",
        "Type": "kind",
        "SourceName": "source_name",
        "ClassName": "class_name",
        "EgressAllowURIs": "egress_allow_uris",
        "Properties": "properties",
        **_OWNED,
    },
)
FUNCTION_SOURCES = Projection(
    "function_sources",
    {
        "Name": "name",
        "State": "status",
        "Language": "language",
        "Description": "description",
        "Url": "url",
        **_OWNED,
    },
)
FUTURE_GRANTS = Projection(
    "future_grants",
    {
        "Privilege": "privilege",
        "GrantOn": "grant_on",
        "Kind": "kind",
        "Name": "name",
        "Grantee": "grantee",
        "GrantOption": "grant_option",
        "GrantedBy": "granted_by",
    },
)
GRANTS = Projection(
    "grants",
    {
        "Privilege": "privilege",
        "Kind": "kind",
        "Name": "name",
        "GranteeKind": "grantee_kind",
        "Grantee": "grantee",
        "GrantOption": "grant_option",
        "GrantedBy": "granted_by",
    },
)
INVITATIONS = Projection(
    "invitations",
    {
        "ID": "id",
        "User": "user_name",
        "Roles": "roles",
        "DefaultRole": "default_role",
        "InvitedBy": "invited_by",
        "CreatedAt": "created_at",
        "ExpiresAt": "expires_at",
    },
)
ORGANIZATIONS = Projection(
    "organizations",
    {
        "ID": "id",
        "Name": "name",
        "Description": "description",
        "ProfileImageURI": "profile_image_uri",
        "CreatedAt": "created_at",
    },
)
QUERIES = Projection(
    "queries",
    {
        "ID": "id",
        "Name": "name",
        "Version": "version",
        "IntendedState": "intended_state",
        "ActualState": "current_state",
        "Query": "query",
        **_OWNED,
        "Message": "message",
        "Sink": "sink_fqn",
    },
)
LISTED_RELATIONS = Projection(
    "relations",
    {
        "Name": "name",
        "Type": "relation_type",
        "Owner": "owner",
        "State": "state",
        **_TIMES,
        "Database": "database_name",
        "Schema": "schema_name",
    },
)
ROLES = Projection(
    "roles", {"Name": "name", "IsCurrent": "is_current", "Owner": "owner", "CreatedAt": "created_at"}
)
ALERTS = Projection(
    "alerts",
    {
        "Name": "name",
        "QueryID": "query_id",
        "Codes": "codes",
        "Host": "host",
        "Firing": "firing",
        "Pending": "pending",
        "DeliveredAt": "delivered_at",
        "Error": "error",
        **_OWNED,
    },
)
SAVEPOINTS = Projection(
    "savepoints",
    {
        "Name": "name",
        "QueryID": "query_id",
        "QueryName": "query_name",
        "QueryVersion": "query_version",
        "Sink": "sink_fqn",
        "Batch": "batch",
        "Size": "size_bytes",
        "ExpiresAt": "expires_at",
        **_OWNED,
    },
)
SCHEMAS = Projection(
    "schemas",
    {
        "Name": "name",
        "IsDefault": "is_default",
        "Owner": "owner",
        "CreatedAt": "created_at",
        "Database": "database_name",
    },
)
SCHEMA_REGISTRIES = Projection(
    "schema_registries", {"Name": "name", "Type": "type", "State": "status", "Url": "url", **_OWNED}
)
SECRETS = Projection(
    "secrets", {"Name": "name", "Type": "type", "Description": "description", "State": "status", **_OWNED}
)
STORES = Projection(
    "stores",
    {
        "Name": "name",
        "Type": "store_type",
        "State": "status",
        "Message": "status_message",
        "IsDefault": "is_default",
        **_OWNED,
    },
)
USERS = Projection(
    "users",
    {
        "Name": "name",
        "Roles": "roles",
        "DefaultRole": "default_role",
        "HasPassword": "has_password",
        "CreatedAt": "created_at",
    },
)


def _lists(
    kind: type[Statement],
    projection: Projection,
    *,
    requires: Requirements[Statement] = nothing,
    **filters: object,
) -> None:
    """Handle a LIST: return the rows of its relation that match `filters`."""

    @handles(kind, requires=requires)
    async def listed(_statement: Statement, run: Execution) -> Outcome:
        return Outcome(await projection.rows(run, **filters))


_lists(ListApiTokens, API_TOKENS)
_lists(ListComputePools, COMPUTE_POOLS)
_lists(ListDatabases, DATABASES)
_lists(ListDescriptors, DESCRIPTORS)
_lists(ListDescriptorSources, DESCRIPTOR_SOURCES)
_lists(ListFunctions, FUNCTIONS, built_in=False)
_lists(ListFunctionSources, FUNCTION_SOURCES)
_lists(ListInvitations, INVITATIONS, requires=on_organization(Privilege.MANAGE_MEMBERS))
_lists(ListOrganizations, ORGANIZATIONS)
_lists(ListQueries, QUERIES)
_lists(ListRoles, ROLES, is_available=True)
_lists(ListAlerts, ALERTS)
_lists(ListSavepoints, SAVEPOINTS)
_lists(ListSchemaRegistries, SCHEMA_REGISTRIES)
_lists(ListSecrets, SECRETS)
_lists(ListStores, STORES)
_lists(ListUsers, USERS)
