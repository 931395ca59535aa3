"""Audit entries of statements."""

from __future__ import annotations

import importlib
import time
from dataclasses import replace
from functools import lru_cache

from headrace.analyzer.properties import DIALECT
from headrace.catalog.audit import AuditEntry, AuditOutcome, Event
from headrace.catalog.objects import Principal
from headrace.connectors.registry import loaded
from headrace.connectors.schema_registry.options import PROPERTIES as REGISTRY
from headrace.core.properties import Specs
from headrace.core.sqlstate import SqlState
from headrace.sql.ast import Statement
from headrace.sql.masking import leading_words, masked
from headrace.statements.registry import MODULES
from headrace.statements.secret import PROPERTIES as SECRET

STATEMENT_LENGTH_MAX = 4_000
_OUTCOMES = {SqlState.SUCCESS: AuditOutcome.ALLOWED, SqlState.INSUFFICIENT_PRIVILEGE: AuditOutcome.DENIED}


def audited(
    statement: Statement | str,
    principal: Principal,
    role: str | None,
    state: SqlState,
    *,
    began: float,
    statement_id: str | None = None,
) -> AuditEntry:
    """Return the entry of a statement that `began` at that `time.perf_counter()`, or of a text that could not be parsed."""
    text = leading_words(statement) if isinstance(statement, str) else recorded_text(statement)
    return AuditEntry(
        Event.STATEMENT,
        _OUTCOMES.get(state, AuditOutcome.FAILED),
        principal.user,
        role,
        principal.credential,
        principal.address,
        "page" if principal.session is not None else principal.door,
        state.value,
        statement_id,
        text,
        round((time.perf_counter() - began) * 1000),
    )


def refused_check(statement: Statement, principal: Principal, role: str | None) -> AuditEntry:
    """Return the entry of a statement that was only checked, and would be refused if it were run. Editors check the same text repeatedly,
    so the entry contains nothing that differs between checks."""
    entry = audited(statement, principal, role, SqlState.INSUFFICIENT_PRIVILEGE, began=0)
    return replace(entry, event=Event.CHECK, duration_ms=None)


def recorded_text(statement: Statement) -> str:
    """Return the text of a statement without its secrets, as long as the audit log keeps it."""
    return masked(statement.text, shows=_shows, length_max=STATEMENT_LENGTH_MAX)


def _shows(key: str, of_secret: bool) -> bool:
    """True if a property's value may be recorded: it is declared, and not as a secret."""
    return _is_plain(key, of_secret, len(loaded()))


@lru_cache(maxsize=4096)
def _is_plain(key: str, of_secret: bool, _types: int) -> bool:
    matching = [spec for spec in (SECRET if of_secret else _declared()) if spec.matches_name(key)]
    return bool(matching) and not any(spec.secret for spec in (matching[:1] if of_secret else matching))


def _declared() -> Specs:
    modules = [importlib.import_module(f"headrace.statements.{name}") for name in MODULES if name != "secret"]
    of_statements = [spec for module in modules for spec in getattr(module, "PROPERTIES", ())]
    of_stores = [spec for kind in loaded() for spec in kind.properties]
    return (*DIALECT, *REGISTRY, *of_statements, *of_stores)
