"""Alembic's entry: runs the revisions on the connection that `upgrade.to_head` passes."""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, render_as_batch=True)
context.run_migrations()
