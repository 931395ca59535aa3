"""The dialect as sqlglot knows it, under the name `headrace`.

Nothing of sqlglot is changed for other users in the process: these are subclasses with tables of their own.
"""

from __future__ import annotations

from typing import Any

from sqlglot.dialects.dialect import Dialect
from sqlglot.tokenizer_core import Token

from headrace.sql import lexer
from headrace.sql.query_parser import QueryParser
from headrace.sql.query_printer import QueryPrinter


class Headrace(Dialect):
    """Queries only: `sqlglot.parse_one(text, read="headrace")`. Statements are read by `headrace.sql.parse`."""

    NULL_ORDERING = "nulls_are_small"
    Tokenizer = lexer.HeadraceTokenizer
    Parser = QueryParser
    Generator = QueryPrinter

    def tokenize(self, sql: str, *_arguments: Any, **_options: Any) -> list[Token]:
        """Return tokens with positions of their first characters, see `headrace.sql.lexer`."""
        return lexer.tokens(lexer.Source(sql))
