"""The conditions of a read of a view, as DuckDB's SQL."""

from __future__ import annotations

import datetime

from headrace.core.names import quote
from headrace.planner.duckdb_sql import text_literal
from headrace.planner.view_reads import Condition


def condition_sql(condition: Condition, kind: str) -> str | None:
    """Return a condition on a column of DuckDB's type `kind`; None if there is no such condition."""
    return condition.sql(quote(condition.column), lambda text: _value(text, kind))


def _value(text: str, kind: str) -> str | None:
    try:
        match kind:
            case "VARCHAR":
                return text_literal(text)
            case "TIMESTAMP":
                moment = datetime.datetime.fromisoformat(text)
                if moment.tzinfo is not None:
                    moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
                return f"TIMESTAMP '{moment.isoformat(' ')}'"
            case "DATE":
                return f"DATE '{datetime.date.fromisoformat(text).isoformat()}'"
        return str(int(text))
    except ValueError:
        return None
