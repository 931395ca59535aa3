"""The table of other systems' idioms: each form gets its hint, and the table's replacement is planned."""

from __future__ import annotations

import re
from pathlib import Path

from harness.session import ADMINISTRATOR, Session, open_session
from headrace.core.context import SessionContext
from headrace.core.errors import Diagnostic
from headrace.core.idioms import IDIOMS, Idiom, Place

REFERENCE = Path(__file__).resolve().parents[3] / "docs/reference/queries.md"
RELATIONS = REFERENCE.read_text(encoding="utf-8").partition("```sql\n")[2].partition("```")[0]
CONTEXT = SessionContext("", database="docs", schema="public", store="k")


async def _checked(session: Session, text: str) -> list[Diagnostic]:
    """Return the errors of checking `text`, behind the relations that the examples read."""
    checked = await session.service.check(
        RELATIONS + text, principal=ADMINISTRATOR, context=CONTEXT, files={}
    )
    # What a role may do is not what is tried here.
    return [one for one in checked.diagnostics if one.severity == "error" and one.sqlstate != "42501"]


async def test_each_idiom_gets_its_hint_and_what_replaces_it_is_planned(tmp_path: Path) -> None:
    faults = []
    async with open_session(tmp_path) as session:
        session.catalog.create_database("docs", "sysadmin")
        assert await _checked(session, "") == []
        for idiom in IDIOMS:
            refused = await _checked(session, idiom.typed)
            if [one.hint for one in refused] != [idiom.hint]:
                faults.append(f"{idiom.typed!r}: {refused}")
            elif idiom.replacement is not None:
                faults += await _after_replacement(session, idiom, refused[0])
        # In one text, which is a tenth of the time of as many as there are idioms.
        if await _checked(session, ";\n".join(idiom.ours.rstrip("; ") for idiom in IDIOMS)):
            for idiom in IDIOMS:
                if mended := await _checked(session, idiom.ours):
                    faults.append(f"{idiom.ours!r}: {mended}")
            assert faults, "the statements of different idioms are in each other's way"
    assert not faults, "\n".join(faults)


async def _after_replacement(session: Session, idiom: Idiom, refused: Diagnostic) -> list[str]:
    """Return a fault if the replacement, put where the error points, does not take the error away."""
    assert refused.replacements == (idiom.replacement,)
    assert refused.span is not None
    assert idiom.replacement is not None
    text = RELATIONS + idiom.typed
    mended = text[: refused.span.start] + idiom.replacement + text[refused.span.end :]
    after = await _checked(session, mended.removeprefix(RELATIONS))
    return [f"{idiom.typed!r}: {after}"] if any(one.message == refused.message for one in after) else []


def test_no_words_stand_for_two_idioms_at_one_place() -> None:
    places = [(idiom.place, idiom.words) for idiom in IDIOMS if idiom.words != "FORMAT"]
    assert len(places) == len(set(places))


def test_hints_are_sentences() -> None:
    assert all(re.fullmatch(r"[A-Z\\].*[.]", idiom.hint) for idiom in IDIOMS)
    assert {idiom.place for idiom in IDIOMS} == set(Place)
