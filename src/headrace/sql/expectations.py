"""Record of the words and slots that the grammar accepts at the end of a text, so that completion needs no grammar of its own.

A parser of this package asks at each position whether a word, a name or a value comes next. Where the tokens end, its questions are
recorded here if `lexer.Source.expectations` is set; without it nothing is recorded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum


class Slot(Enum):
    """Kind of text, other than keywords, that the grammar accepts."""

    NAME = "name"
    """The name of an object or a column; which one, is in the expectation's `what`."""
    RELATION = "relation"
    EXPRESSION = "expression"
    TYPE = "type"
    PROPERTY = "property"
    VALUE = "value"


@dataclass
class Expectations:
    """The words and slots that a parser asked for at the end of the tokens.

    `words` maps a phrase such as `IF NOT EXISTS` to True if the grammar continues after it. The parser looks ahead for other phrases too,
    for example to refuse a clause of another dialect by name. `slots` maps each slot to its descriptions in errors.
    `is_closed` is set at a slot that must be filled: what a parser asks for after it does not follow the text. `is_whole` is set if the
    text is a whole statement, which may end there.
    """

    words: dict[str, bool] = field(default_factory=dict)
    slots: dict[Slot, list[str]] = field(default_factory=dict)
    is_closed: bool = False
    is_whole: bool = False

    def add_words(self, words: Iterable[str], *, certain: bool) -> None:
        """Record a phrase, if it is one of words rather than symbols."""
        phrase = " ".join(word for word in words if word not in "([")
        if phrase and not self.is_closed and all(part.replace("_", "").isalpha() for part in phrase.split()):
            self.words[phrase] = self.words.get(phrase, False) or certain

    def add_slot(self, slot: Slot, what: str = "") -> None:
        """Record a slot."""
        self.slots.setdefault(slot, []).append(what)
