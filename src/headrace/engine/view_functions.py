"""What the function catalogue needs of DuckDB and DuckDB has not, or has with another meaning, in Python.

A continuous query and a query of views must give the same answer: see tests/functions.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable

import duckdb

OWN_ERROR = re.compile(r"\[(22\d{3})\] ([^\n]*)")
"""How a function says that it cannot take a value: the SQLSTATE in brackets, then why."""
_EXACT = decimal.Context(prec=160, rounding=decimal.ROUND_HALF_UP)
"""Twice as many digits as a product or a quotient of 38 digits needs to be rounded rightly."""
_CALCULATIONS: dict[str, Callable[[decimal.Decimal, decimal.Decimal], decimal.Decimal]] = {
    "+": _EXACT.add,
    "-": _EXACT.subtract,
    "*": _EXACT.multiply,
    "/": _EXACT.divide,
    "%": _EXACT.remainder,
}


def install(database: duckdb.DuckDBPyConnection) -> None:
    """Make the functions known to every cursor of a database."""
    text, number = "VARCHAR", "INTEGER"
    database.create_function(
        "decimal_arithmetic", _decimal_arithmetic, [text, text, text, number, number], text
    )


def _decimal_arithmetic(operator: str, left: str, right: str, precision: int, scale: int) -> str:
    """An operator over two decimal texts as a DECIMAL(precision, scale), rounded half away from zero."""
    divisor = decimal.Decimal(right)
    if operator in "/%" and not divisor:
        raise ValueError("[22012] division by zero")
    found = _CALCULATIONS[operator](decimal.Decimal(left), divisor)
    result = found.quantize(decimal.Decimal(1).scaleb(-scale), context=_EXACT)
    if len(result.as_tuple().digits) > precision:
        raise ValueError(f"[22003] {found:f} has no place in a DECIMAL({precision}, {scale})")
    return format(result, "f")
