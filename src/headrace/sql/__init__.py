"""The language: text in, statements with places out, and back to text.

Role: the dialect of SQL, built on sqlglot without its permissiveness: an unknown statement is an error, never a guess.
Entry points: `parse`, `parse_each`, `split`, `is_complete`, `diagnostics.shown`, and the tree's conventions in `ast`.
May import: `core` and sqlglot.
To add a statement: in the module of its object kind under `statements/`, one dataclass (with `sql()`) and one function
under `@grammar("VERB OBJECT")`; a new kind is a new module named in `statements/__init__.py`.
To add query syntax: a method of `query_parser.QueryParser`, its printing in `query_printer`, its node in `ast`.
"""

from __future__ import annotations

from headrace.sql import statements
from headrace.sql.grammar import parse, parse_each
from headrace.sql.lexer import is_complete, split

__all__ = ["is_complete", "parse", "parse_each", "split", "statements"]
