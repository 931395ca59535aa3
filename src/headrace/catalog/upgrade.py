"""Bringing a stored catalog to the newest revision."""

from __future__ import annotations

from importlib.resources import files

from sqlalchemy import Connection, inspect, text

from headrace.catalog.migrations import HEAD


def to_head(connection: Connection) -> None:
    """Run the missing revisions; nothing is imported or run when there are none."""
    if inspect(connection).has_table("alembic_version"):
        current = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        if current == HEAD:
            return
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(files("headrace.catalog.migrations")).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, HEAD)
