"""BACKUP: create. ADR 65."""

from __future__ import annotations

from headrace.catalog.access import Privilege
from headrace.core.wording import counted
from headrace.sql.statements.backup import CreateBackup
from headrace.statements.base import Execution, Outcome, ddl, handles, on_organization


@handles(CreateBackup, requires=on_organization(Privilege.OWNERSHIP))
async def create_backup(_statement: CreateBackup, run: Execution) -> Outcome:
    """Write a backup of the data directory into a new folder of it, while the queries run."""
    backup = await run.services.engine.take_backup()
    summary = (
        f"the backup contains {counted(backup.queries, 'query', 'queries')}, {counted(backup.views, 'materialized view')} and "
        f"{counted(backup.savepoints, 'savepoint')}, in {backup.size} bytes"
    )
    if backup.without_position:
        summary += f"; without a position, since they have not finished a batch: {', '.join(backup.without_position)}"
    return Outcome(ddl("backup", backup.folder.name, "CREATE", summary, [str(backup.folder)]))
