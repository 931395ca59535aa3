"""Several topics in one text: names, and names with `*`, separated by `;` as Flink does it. No topic's name can have either."""

from __future__ import annotations

import re

from headrace.connectors.base import EntityPattern
from headrace.core.names import EntityPath

_SEPARATOR, _ANY = ";", "*"


def pattern(path: EntityPath) -> EntityPattern | None:
    """Return the pattern of topics in a relation's path; None for one topic."""
    text = path[-1]
    if _SEPARATOR not in text and _ANY not in text:
        return None
    among = re.compile(java_pattern(text))
    names = tuple((part,) for part in _parts(text) if _ANY not in part)
    return EntityPattern(names, lambda other: len(other) == 1 and among.fullmatch(other[0]) is not None)


def java_pattern(text: str) -> str:
    """Return a regular expression of topics, for Java and Python. A leading `*` does not match internal topics."""
    return "|".join(
        ("(?!__)" if part.startswith(_ANY) else "") + ".*".join(map(re.escape, part.split(_ANY)))
        for part in _parts(text)
    )


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(_SEPARATOR) if part.strip()]
