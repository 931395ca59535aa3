"""The conditions of a read of a view, as DuckDB's SQL."""

from __future__ import annotations

import datetime

from headrace.core.names import quote
from headrace.planner.duckdb_sql import text_literal
from headrace.planner.view_reads import Condition


def condition_sql(condition: Condition, kind: str) -> str | None:
    """A condition on a column of DuckDB's type `kind`; None if there is no such condition."""
    name = quote(condition.column)
    values = [_value(text, kind) for text in condition.values]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    match condition.operator:
        case "IS NULL" | "IS NOT NULL":
            return f"{name} {condition.operator}"
        case "BETWEEN":
            return f"{name} BETWEEN {known[0]} AND {known[1]}"
        case "IN":
            return f"{name} IN ({', '.join(known)})"
    return f"{name} {condition.operator} {known[0]}"


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
