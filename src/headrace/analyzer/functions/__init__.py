"""The function catalogue: every function, operator and aggregate that a query may use; nothing else passes.

Role: data. One row says name, signature, result type, how Spark and DuckDB spell it, and a sentence for the reference.
Entry points: `lookup(name)`, `CATALOGUE`, `OPERATORS_BY_NAME`, `WINDOW_FUNCTIONS`.
May import: analyzer.expressions, analyzer.typing, core.
To add a function: a row in the module of its family, such as `scalars.py` or, for OVER, `windows.py`.
"""

from __future__ import annotations

from headrace.analyzer.functions.aggregates import AGGREGATES
from headrace.analyzer.functions.arrays import COLLECTIONS
from headrace.analyzer.functions.encodings import ENCODINGS
from headrace.analyzer.functions.json import JSON
from headrace.analyzer.functions.operators import OPERATORS
from headrace.analyzer.functions.regular_expressions import REGULAR_EXPRESSIONS
from headrace.analyzer.functions.scalars import SCALARS
from headrace.analyzer.functions.signature import Function
from headrace.analyzer.functions.temporals import TEMPORALS
from headrace.analyzer.functions.windows import RANKINGS, WINDOW_FUNCTIONS
from headrace.core.errors import Span, UserError
from headrace.core.idioms import Place, remedy
from headrace.core.sqlstate import SqlState
from headrace.core.suggestions import did_you_mean, nearest
from headrace.sql.ast import TIME_WINDOWS

CATALOGUE: dict[str, Function] = {
    row.name: row
    for row in (*SCALARS, *REGULAR_EXPRESSIONS, *ENCODINGS, *TEMPORALS, *COLLECTIONS, *JSON, *AGGREGATES)
}
"""The functions that are called by name, with parentheses."""

OPERATORS_BY_NAME: dict[str, Function] = {row.name: row for row in OPERATORS}
"""Operators and predicates by symbol or word; `operators.py` lists them."""

__all__ = [
    "CATALOGUE",
    "OPERATORS_BY_NAME",
    "SYNONYMS",
    "WINDOW_FUNCTIONS",
    "is_aggregate",
    "is_built_in",
    "lookup",
]

_FORMS = frozenset(
    {
        "ROWTIME",
        "ROWKEY",
        "ROWMETA",
        "ROWHEADERS",
        "ROW",
        "TYPEOF",
        "CAST",
        "TRY_CAST",
        "EXTRACT",
        *TIME_WINDOWS,
        "UNNEST",
        "MATCH_ROWTIME",
        "EXISTS",
        "IN",
    }
)
"""What looks like the call of a function, and has a meaning of its own."""

_WHICH = "SELECT name FROM deltastream.sys.functions; lists the functions."

SYNONYMS = {
    "CEILING": "CEIL",
    "CHARACTER_LENGTH": "CHAR_LENGTH",
    "LENGTH": "CHAR_LENGTH",
    "LEN": "CHAR_LENGTH",
    "LCASE": "LOWER",
    "UCASE": "UPPER",
    "SUBSTR": "SUBSTRING",
    "POW": "POWER",
    "BTRIM": "TRIM",
    "SHA": "SHA1",
    "STRING_AGG": "LISTAGG",
    "COLLECT_LIST": "COLLECT",
    "ARRAY_LENGTH": "CARDINALITY",
    "SIZE": "CARDINALITY",
    "DAY": "DAYOFMONTH",
    "NVL": "IFNULL",
    "STDDEVPOP": "STDDEV_POP",
    "STDDEVSAMP": "STDDEV_SAMP",
    "GETDATE": "NOW",
}


def lookup(name: str, *, span: Span | None = None) -> Function:
    """Return the function called `name`, any case; raises UserError 3D017 with the nearest names."""
    upper = name.upper()
    row = CATALOGUE.get(SYNONYMS.get(upper, upper))
    if row is None and any(ranking.name == upper for ranking in RANKINGS):
        raise UserError(
            SqlState.SYNTAX_ERROR,
            f"{upper} needs OVER",
            hint=f"Write {upper}(…) OVER (PARTITION BY … ORDER BY …).",
            span=span,
        )
    if row is None:
        near = nearest(upper, [*CATALOGUE, *SYNONYMS], count=3)
        hint = remedy(Place.FUNCTION, upper) or did_you_mean(near) or _WHICH
        raise UserError(
            SqlState.FUNCTION_NOT_FOUND, f"the function {upper} does not exist", hint=hint, span=span
        )
    return row


def is_built_in(name: str) -> bool:
    """True when a call by `name`, any case, means something without any function of a user."""
    upper = name.upper()
    return upper in CATALOGUE or upper in SYNONYMS or upper in WINDOW_FUNCTIONS or upper in _FORMS


def is_aggregate(name: str) -> bool:
    """True when `name`, any case, is that of an aggregate."""
    row = CATALOGUE.get(SYNONYMS.get(name.upper(), name.upper()))
    return row is not None and row.aggregate
