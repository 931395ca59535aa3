"""Bringing a stored catalog to the newest revision."""

from __future__ import annotations

from importlib.resources import files

from sqlalchemy import Connection, inspect, text

from headrace.catalog.migrations import HEAD
from headrace.catalog.secrets import SecretBox


def to_head(connection: Connection, box: SecretBox) -> None:
    """Run the missing revisions; nothing is imported or run when there are none. One of them seals anew what `box` opens."""
    if inspect(connection).has_table("alembic_version"):
        current = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        if current == HEAD:
            return
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(files("headrace.catalog.migrations")).replace("%", "%%"))
    config.attributes.update(connection=connection, box=box)
    command.upgrade(config, HEAD)
