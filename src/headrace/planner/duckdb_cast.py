"""CAST in DuckDB's SQL with the meaning that it has in Spark's: whole numbers are cut, texts must be wholly of their type.

The functions that DuckDB lacks for it are those of `engine.views.functions`.
"""

from __future__ import annotations

from headrace.core.types import BOOLEAN, DATE, DOUBLE, FLOAT, INTEGRAL, DataType, Decimal, Timestamp, Varchar


def cast(operand: str, source: DataType, target: DataType, type_name: str, *, safe: bool) -> str:
    """Return `operand` of the type `source` cast to `target`, DuckDB's `type_name`. With `safe`, a value that does not fit is NULL."""
    word = "TRY_CAST" if safe else "CAST"
    if isinstance(source, Varchar):
        operand = _of_text(operand, target, safe=safe)
    elif isinstance(target, Varchar):
        return _to_text(operand, source)
    elif target in INTEGRAL and (isinstance(source, Decimal) or source in (FLOAT, DOUBLE)):
        operand = f"trunc({operand})"
    elif target == FLOAT and source not in INTEGRAL:
        operand = f"as_float(CAST({operand} AS DOUBLE))"
    elif target == DOUBLE and isinstance(source, Decimal):
        operand = f"CAST({operand} AS VARCHAR)"
    elif isinstance(target, Decimal) and source in (FLOAT, DOUBLE):
        operand = f"finite_text({operand})"
    text = f"{word}({operand} AS {type_name})"
    coarser = (
        isinstance(source, Timestamp) and isinstance(target, Timestamp) and source.digits > target.digits
    )
    if isinstance(target, Timestamp) and (coarser or isinstance(source, Varchar)):
        return cut_time(text, target.digits)
    return text


_SINCE = 10**18
"""Microseconds added before a division, which cuts towards zero, so that times before 1970 are cut downwards too."""


def cut_time(operand: str, digits: int) -> str:
    """Return a TIMESTAMP with that many digits of a second, the others cut off."""
    unit = 10 ** (6 - digits)
    if digits in (0, 3):
        return f"date_trunc('{'millisecond' if digits else 'second'}', {operand})"
    return (
        f"make_timestamp((epoch_us({operand}) + {_SINCE}) // {unit} * {unit} - {_SINCE})"
        if digits < 6
        else operand
    )


def _of_text(operand: str, target: DataType, *, safe: bool) -> str:
    if target == DATE or isinstance(target, Timestamp):
        kind = "TIMESTAMP" if isinstance(target, Timestamp) else "DATE"
        return f"time_of_text({operand}, '{kind}', {str(safe).lower()})"
    kind = "INTEGER" if target in INTEGRAL else "DECIMAL" if isinstance(target, Decimal) else str(target)
    if target in INTEGRAL or target in (FLOAT, DOUBLE, BOOLEAN) or isinstance(target, Decimal):
        return f"trimmed_value({operand}, '{kind}', {str(safe).lower()})"
    return operand


def _to_text(operand: str, source: DataType) -> str:
    if source in (FLOAT, DOUBLE):
        return f"{'float' if source == FLOAT else 'double'}_as_text({operand})"
    text = f"CAST({operand} AS VARCHAR)"
    if isinstance(source, Decimal) and source.precision == source.scale:
        return f"regexp_replace({text}, '^(-?)[.]', '\\10.')"
    return text
