"""Bringing a stored catalog to the newest revision."""

from __future__ import annotations

from importlib.resources import files

from sqlalchemy import Connection, column, func, inspect, select, table, text

from headrace.catalog import tables
from headrace.catalog.lease import TABLE
from headrace.catalog.migrations import HEAD
from headrace.catalog.secrets import SecretBox
from headrace.catalog.storage import Storage
from headrace.core.errors import ExternalError, UserError
from headrace.core.sqlstate import SqlState


def to_head(connection: Connection, box: SecretBox) -> None:
    """Create the tables of a new catalog, or run the missing revisions on an old one; one revision seals the secrets in `box` again.

    Raises UserError 0A000 for a catalog that a later release has migrated, which stays unchanged.
    """
    known = inspect(connection)
    if known.has_table("alembic_version"):
        current = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        if current == HEAD:
            return
        # Revisions are numbers of four digits, in order.
        if current is not None and current > HEAD:
            raise UserError(
                SqlState.FEATURE_NOT_SUPPORTED,
                f"the catalog is of a later release: it has revision {current}, and this release supports revisions up to {HEAD}",
                hint="Start that release, or a later one. Only a backup from before the upgrade leads back to this release.",
            )
    elif not set(known.get_table_names()) - {TABLE}:
        # By the revisions it would be the same, a tenth of a second later.
        tables.metadata.create_all(connection)
        connection.execute(
            text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
        )
        connection.execute(text("INSERT INTO alembic_version VALUES (:head)"), {"head": HEAD})
        return
    by_revisions(connection, box)


def refuse_other(storage: Storage) -> None:
    """Raise UserError 0A000 if the catalog has not the revision of this release, since only the server that leads may upgrade it; raise
    ExternalError 57015 if that server has not created it yet."""
    [known] = storage.rows(select(func.to_regclass("alembic_version").label("table")))
    if known["table"] is None:
        raise ExternalError(
            SqlState.REMOTE_UNAVAILABLE, "the server that leads has not created the catalog yet"
        )
    [current] = storage.rows(select(column("version_num")).select_from(table("alembic_version")))
    if current["version_num"] != HEAD:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"the catalog is of another release than this server: expected revision {HEAD}, found {current['version_num']}",
            hint="Upgrade the server that leads first: the first server of a release upgrades the catalog.",
        )


def by_revisions(connection: Connection, box: SecretBox, revision: str = HEAD) -> None:
    """Run the missing revisions, up to and including `revision`."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(files("headrace.catalog.migrations")).replace("%", "%%"))
    config.attributes.update(connection=connection, box=box)
    command.upgrade(config, revision)
