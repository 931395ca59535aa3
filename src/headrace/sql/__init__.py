"""The language: text in, statements with places out, and back to text.

Role: the dialect of SQL, built on sqlglot without its permissiveness: an unknown statement is an error, never a guess.
Entry points: `parse`, `parse_each`, `split`, `is_complete`, `diagnostics.shown`, and the tree's conventions in `ast`.
May import: `core` and sqlglot.
To add a statement: in the module of its object kind under `statements/`, one dataclass (with `sql()`) and one function
under `@grammar("VERB OBJECT")`; a new kind is a new module named in `statements/__init__.py`.
To add query syntax: a method of `query_parser.QueryParser`, in FROM of `source_parser.SourceParser`; its printing in
`query_printer`, its node in `ast`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.sql.splitting import is_complete, split

if TYPE_CHECKING:
    from headrace.core.errors import UserError
    from headrace.sql.ast import Statement

__all__ = ["is_complete", "parse", "parse_each", "split"]


# The grammar is imported when something is parsed first: the command line splits its text and lets the server parse.


def parse(text: str) -> list[Statement]:
    """Return the statements of `text`; see `grammar.parse`."""
    from headrace.sql import statements  # noqa: F401 - fills the grammar
    from headrace.sql.grammar import parse

    return parse(text)


def parse_each(text: str) -> Iterator[Statement | UserError]:
    """Yield the statements of `text`, or why they cannot be read; see `grammar.parse_each`."""
    from headrace.sql import statements  # noqa: F401 - fills the grammar
    from headrace.sql.grammar import parse_each

    return parse_each(text)
