"""Properties: the reader reads each property once, reports positions, and refuses unknown properties."""

from __future__ import annotations

import pytest

from headrace.core.errors import InternalError, Span, UserError
from headrace.core.properties import (
    BOOLEAN,
    COUNT,
    FLAG,
    TEXT,
    PropertyReader,
    PropertySpec,
    Scope,
    Stored,
    choice,
    masked,
    secret_values,
    stored,
)

SIZE = PropertySpec("size", COUNT, Scope.ENTITY, "how large", synonyms=("old.size",))
COLOUR = PropertySpec("colour", choice("red", "green"), Scope.ENTITY, "the colour")
WORD = PropertySpec("word", TEXT, Scope.ENTITY, "the password", secret=True)
LOUD = PropertySpec("loud", FLAG, Scope.ENTITY, "whether it is loud")
SETTING = PropertySpec("setting.", BOOLEAN, Scope.ENTITY, "any setting", open=True)
SPECS = (SIZE, COLOUR, WORD, LOUD, SETTING)


def reader(**given: str | None) -> PropertyReader:
    entries = [
        Stored(key.replace("_", "."), value, Span(number, number + 1, 1, number + 1))
        for number, (key, value) in enumerate(given.items())
    ]
    return PropertyReader(entries, SPECS, what="a thing", defaults={"size": "3", "other": "x"})


def test_values_come_typed_and_defaults_fill_in() -> None:
    properties = reader(colour="RED", setting_a="true", setting_b="FALSE", loud=None)
    assert (properties.take(COLOUR), properties.take(SIZE), properties.take(LOUD), properties.take(WORD)) == (
        "red",
        3,
        True,
        None,
    )
    assert properties.take_all(SETTING) == {"a": True, "b": False}
    assert (properties.is_set(COLOUR), properties.is_set(SIZE)) == (True, False)
    properties.finish()


def test_what_is_given_under_another_name_beats_a_default() -> None:
    assert reader(old_size="7").take(SIZE) == 7


def test_an_unknown_one_is_refused_at_its_place_with_the_nearest_name() -> None:
    with pytest.raises(UserError) as caught:
        reader(size="1", color="red")
    assert (caught.value.state.value, caught.value.hint) == ("3D008", "Did you mean colour?")
    assert caught.value.span == Span(1, 2, 1, 2)


@pytest.mark.parametrize(
    ("key", "value", "spec"), [("size", "many", SIZE), ("size", None, SIZE), ("colour", "blue", COLOUR)]
)
def test_a_bad_value_is_refused_at_its_place(key: str, value: str | None, spec: PropertySpec[object]) -> None:
    with pytest.raises(UserError, match="must be") as caught:
        reader(loud="true", **{key: value}).take(spec)
    assert caught.value.span == Span(1, 2, 1, 2)


def test_a_missing_one_is_missed_where_the_caller_says() -> None:
    place = Span(5, 6, 1, 6)
    with pytest.raises(UserError, match="a thing needs the property 'colour'") as caught:
        PropertyReader((), SPECS, what="a thing", lacking=place).require(COLOUR)
    assert (caught.value.state.value, caught.value.span) == ("3D021", place)


def test_a_secret_is_in_no_error_and_in_nothing_that_is_shown() -> None:
    assert "hunter2" not in reader(word="hunter2").bad(WORD, "longer").text()
    shown = {"word": "hunter2", "size": "1"}
    assert masked(shown, SPECS, {}) == {"word": "****", "size": "1"}
    assert masked(shown, SPECS, {"word": "s"}) == {"word": "SECRET s", "size": "1"}
    assert "hunter2" not in repr(stored({"word": "hunter2"}))


def test_what_nobody_reads_is_an_error_of_ours_unless_it_is_left_to_others() -> None:
    properties = reader(colour="red", word="x")
    properties.take(WORD)
    with pytest.raises(InternalError, match="colour"):
        properties.finish()
    properties.leave(Scope.ENTITY)
    properties.finish()


def test_secrets_are_the_values_of_secret_properties_without_the_empty_text() -> None:
    assert secret_values({"size": "3", "word": "s3cret"}, SPECS) == ("s3cret",)
    assert secret_values({"word": ""}, SPECS) == ()
