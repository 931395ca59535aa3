"""Variables of the command line: `:name` in a text, as psql has them."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.sql.splitting import PIECE


def substituted(text: str, variables: Mapping[str, str]) -> str:
    """Return `text` with values of variables: `:name` as it is, `:'name'` as a string, `:"name"` as a name.

    Quotes and comments are left alone, and so is a name without a value.
    """
    if not variables or ":" not in text:
        return text
    pieces = [(match.lastgroup, match.group()) for match in PIECE.finditer(text)]
    result: list[str] = []
    index = 0
    while index < len(pieces):
        piece = pieces[index][1]
        value = None
        # `a::TYPE` is a cast.
        if piece == ":" and index + 1 < len(pieces) and not (index and pieces[index - 1][1] == ":"):
            value = _value(*pieces[index + 1], variables)
        result.append(piece if value is None else value)
        index += 1 if value is None else 2
    return "".join(result)


def _value(kind: str | None, piece: str, variables: Mapping[str, str]) -> str | None:
    if kind == "word":
        return variables.get(piece)
    if kind not in ("string", "quoted") or len(piece) < 2:
        return None
    quote, value = piece[0], variables.get(piece[1:-1])
    return None if value is None else quote + value.replace(quote, quote * 2) + quote
