"""The composition root: the real parts, wired once."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from itertools import chain

from fastapi import FastAPI

from headrace.catalog.access import Privilege
from headrace.catalog.catalog import Catalog
from headrace.catalog.identity import bind
from headrace.catalog.keys import CommandKeys, GivenKeys, KeySource
from headrace.catalog.lease import Lease
from headrace.catalog.objects import Principal
from headrace.core.errors import UserError
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState
from headrace.engine.engine import Engine
from headrace.server.app import create_app
from headrace.server.auditing import audit_log_writer
from headrace.server.metrics import Metrics
from headrace.server.ports import ServerParts
from headrace.server.postgres.door import PostgresDoor, check_listener
from headrace.server.query_metrics import pool_metrics, query_metrics
from headrace.server.sharing import check_catalog
from headrace.session import StatementService
from headrace.statements.base import Services


@dataclass(frozen=True)
class Wired:
    """The application with the parts that have a life of their own; the audit log is written within `audit_kept`."""

    app: FastAPI
    postgres: PostgresDoor
    catalog: Catalog
    engine: Engine
    audit_kept: AbstractAsyncContextManager[None]


def build(settings: Settings, *, broker: str | None = None, lease: Lease | None = None) -> Wired:
    """Build the real parts over `settings.data_dir`, not started. Raises HeadraceError when the catalog cannot be opened.

    `broker` is the address of the broker that was started with the server, if one was. `lease` is the claimed one of a catalog that other
    servers share; without it, one is claimed for a catalog in PostgreSQL.
    """
    if settings.oidc_issuer is not None and not settings.oidc_client_id:
        message = "HEADRACE_OIDC_ISSUER is set, but HEADRACE_OIDC_CLIENT_ID is not"
        raise UserError(
            SqlState.MISSING_PARAMETER,
            message,
            hint="Register this server at the provider, and set the client id that it issues.",
        )
    check_listener(settings)
    url = settings.catalog_url
    catalog = Catalog.open(
        settings.data_dir,
        url.get_secret_value() if url else None,
        keys_of(settings),
        lease,
        scram=settings.postgres_scram,
    )
    try:
        bind(catalog, settings.durable_dir, adopt=settings.adopt_data_dir)
        check_catalog(settings, catalog.snapshot())
        engine = Engine(catalog, settings)
    except BaseException:
        catalog.close()
        raise
    statements = StatementService(Services(catalog, engine, settings))
    parts = ServerParts(
        settings,
        statements,
        catalog.authenticate,
        lambda: chain(
            query_metrics(catalog.unfinished_queries(), engine.progress),
            pool_metrics(catalog.compute_pools(), engine.pool_state),
        ),
        catalog.is_readable,
        catalog.ended,
        catalog,
        catalog.audit.record,
        partial(may_read_metrics, catalog),
        statements.download,
        broker,
        reader=statements,
        worksheets=catalog.worksheets,
    )
    metrics = Metrics(parts.query_metrics)
    return Wired(
        create_app(parts, metrics),
        PostgresDoor(parts, statements, metrics),
        catalog,
        engine,
        audit_log_writer(catalog.audit, settings.audit_days),
    )


def may_read_metrics(catalog: Catalog, principal: Principal) -> bool:
    """True if one of the roles of `principal` has READ_METRICS on the organization."""
    state = catalog.snapshot()
    return any(state.policy.check(role, Privilege.READ_METRICS) for role in state.graph.roles_of(principal))


def keys_of(settings: Settings) -> KeySource | None:
    """Return the configured source of the catalog's keys. Raises UserError 3D008 if there are two."""
    if settings.catalog_key is not None and settings.catalog_key_command:
        message = "HEADRACE_CATALOG_KEY and HEADRACE_CATALOG_KEY_COMMAND both specify the key"
        raise UserError(SqlState.INVALID_PARAMETER, message, hint="Unset one of them.")
    if settings.catalog_key is not None:
        return GivenKeys(settings.catalog_key.get_secret_value())
    return CommandKeys(settings.catalog_key_command) if settings.catalog_key_command else None
