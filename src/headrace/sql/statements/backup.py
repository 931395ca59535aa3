"""BACKUP: create."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.sql.ast import Statement
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import grammar


@dataclass(frozen=True)
class CreateBackup(Statement):
    """`CREATE BACKUP`."""

    def sql(self) -> str:
        return "CREATE BACKUP"


@grammar("CREATE BACKUP")
def create_backup(cursor: Cursor) -> CreateBackup:
    return CreateBackup(*cursor.origin)
