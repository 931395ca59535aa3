"""Errors shown in their text, for consoles."""

from __future__ import annotations

from headrace.core.errors import Diagnostic

_WIDTH_MAX = 120


def shown(text: str, error: Diagnostic) -> str:
    """Return the error with the line it is about and carets under the place:

        error[42601]: expected FROM, found 'FORM'
          2 | SELECT a FORM t
            |          ^^^^
        hint: …

    `text` is what was given to `parse`. Without a span there are only message and hint.
    """
    lines = [f"{error.severity}[{error.sqlstate}]: {error.message}"]
    span = error.span
    if span is not None and span.start <= len(text):
        begin = text.rfind("\n", 0, span.start) + 1
        end = text.find("\n", span.start)
        line = text[begin : end if end >= 0 else len(text)].rstrip("\r").replace("\t", " ")
        column = span.start - begin
        if column > _WIDTH_MAX:
            cut = column - _WIDTH_MAX // 2
            line, column = "…" + line[cut + 1 :], column - cut
        line = line if len(line) <= _WIDTH_MAX else line[: _WIDTH_MAX - 1] + "…"
        width = max(1, min(span.end - span.start, len(line) - column))
        number = str(span.line)
        lines.append(f"  {number} | {line}")
        lines.append(f"  {' ' * len(number)} | {' ' * column}{'^' * width}")
    if error.hint:
        lines.append(f"hint: {error.hint}")
    return "\n".join(lines)
