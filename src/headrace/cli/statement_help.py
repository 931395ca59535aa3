"""Help for statements: the sections of docs/reference/statements.md, which a wheel carries."""

from __future__ import annotations

import re
from functools import cache

from headrace.core.suggestions import nearest
from headrace.runtime.paths import shipped

_HEADING = re.compile(r"^### (?P<title>.+?)\s*<!-- .+ -->$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


def help_for(words: str) -> str | None:
    """Return the sections whose titles start with the words, or contain them; None if no title does."""
    asked = " ".join(words.upper().split())
    sections = _sections()
    chosen = [text for title, text in sections.items() if title == asked]
    chosen = chosen or [text for title, text in sections.items() if title.startswith(asked)]
    chosen = chosen or [text for title, text in sections.items() if asked in title]
    return "\n\n".join(chosen) or None


def hint_for(words: str) -> str:
    """Return the hint for words without help: the nearest statement, or else all."""
    statements = [statement for title in titles() for statement in title.split(", ")]
    near = nearest(" ".join(words.upper().split()), statements, count=1)
    return f"Did you mean \\h {near[0]}?" if near else f"The statements are: {', '.join(titles())}."


def titles() -> list[str]:
    """Return the titles of all sections."""
    return list(_sections())


@cache
def _sections() -> dict[str, str]:
    folder = shipped("_docs", in_tree="docs/reference")
    if folder is None:
        return {}
    text = (folder / "statements.md").read_text(encoding="utf-8")
    text = re.sub(r"^## .*?(?=^### |\Z)", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = list(_HEADING.finditer(text))
    ends = [heading.start() for heading in headings[1:]] + [len(text)]
    return {
        _plain(heading["title"]).upper(): _plain(f"{heading['title']}\n{text[heading.end() : end]}")
        for heading, end in zip(headings, ends, strict=True)
    }


def _plain(text: str) -> str:
    """Return Markdown as text: links without addresses, code without its fences."""
    text = _LINK.sub(r"\1", text)
    text = re.sub(r"^```.*\n?", "", text, flags=re.MULTILINE)
    text = re.sub(r"\*+([^*\n]+)\*+", r"\1", text)
    return re.sub(r"\n{3,}", "\n\n", text.replace("`", "")).strip()
