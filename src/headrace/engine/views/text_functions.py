"""Functions on texts for DuckDB, with the results of the extension's `ScalarFunctions` in continuous queries."""

from __future__ import annotations

import decimal
import hmac
import re
from urllib.parse import quote_plus, unquote_plus

_SCALE_MAX = 400
_EXACT = decimal.Context(prec=1000, rounding=decimal.ROUND_DOWN)
_ILLEGAL_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_OCTET = re.compile(r"0*([0-9]{1,3})")
_ADDRESS_MAX = 0xFFFFFFFF


_CLASSES = {
    "ALPHA": "A-Za-z",
    "UPPER": "A-Z",
    "LOWER": "a-z",
    "DIGIT": "0-9",
    "ALNUM": "A-Za-z0-9",
    "SPACE": " ",
    "WHITESPACE": r" \t\n\r\f\x0b",
}
_REPEATS = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")
_CLASS = re.compile(r"\[:([A-Za-z]+):\]")
_SIMILAR = {"%": ".*", "_": ".", "(": "(?:", **dict.fromkeys("|*+?)", "")}


def truncated(number: str, places: int) -> str:
    """Return a number without the decimal places beyond `places`; a negative one clears digits before the point."""
    exact = decimal.Decimal(number)
    exponent = exact.as_tuple().exponent
    if not isinstance(exponent, int):  # NaN and the infinities
        return number
    if places < -exponent:
        exact = exact.quantize(decimal.Decimal(1).scaleb(-max(places, -_SCALE_MAX)), context=_EXACT)
    return format(exact, "f") if exact else "0"


def url_encoded(text: str) -> str:
    """Return a text in the encoding of URLs' queries, which escapes all but letters, digits and `.-*_`."""
    return quote_plus(text, safe="*").replace("~", "%7E")


def url_decoded(text: str) -> str | None:
    """Return the text that `url_encoded` has encoded; None for an illegal escape."""
    return None if _ILLEGAL_ESCAPE.search(text) else unquote_plus(text)


def address_number(text: str) -> int | None:
    """Return the number of an IPv4 address; `a.b` is `a.0.0.b`. None for any other text."""
    parts = [_OCTET.fullmatch(part) for part in text.split(".")]
    numbers = [int(part[1]) for part in parts if part is not None]
    if len(parts) > 4 or len(numbers) < len(parts) or max(numbers) > 255:
        return None
    *octets, last = numbers
    return sum(octet << (24 - 8 * place) for place, octet in enumerate(octets)) + last


def address_text(number: int) -> str | None:
    """Return the IPv4 address with a number; None if there is none."""
    if not 0 <= number <= _ADDRESS_MAX:
        return None
    return ".".join(str(number >> bits & 255) for bits in (24, 16, 8, 0))


def keyed_hash(text: str, key: str, algorithm: str) -> str:
    """Return the HMAC of a text in base 16."""
    return hmac.new(key.encode(), text.encode(), algorithm).hexdigest()


def similar_pattern(pattern: str, escape: str) -> str:
    """Return a pattern of SIMILAR TO as a regular expression; `escape` is one character, or empty for none."""
    parts, place, bracketed = [], 0, False
    while place < len(pattern):
        character = pattern[place]
        matched = None
        if character == escape:
            place += 1
            if place == len(pattern):
                raise _not_similar(f"nothing follows the escape character {character}")
            parts.append(_literal(pattern[place]))
        elif bracketed:
            matched = _CLASS.match(pattern, place) if character == "[" else None
            parts.append(_in_brackets(character, matched))
            bracketed = character != "]"
        elif character == "[":
            if pattern.startswith(("[]", "[^]"), place):
                raise _not_similar("the brackets are empty")
            parts.append("[")
            bracketed = True
        elif character == "{":
            matched = _REPEATS.match(pattern, place)
            if matched is None:
                raise _not_similar("a { does not start a number of repeats such as {2,3}")
            parts.append(matched[0])
        else:
            parts.append(_SIMILAR[character] or character if character in _SIMILAR else _literal(character))
        place = matched.end() if matched is not None else place + 1
    if bracketed:
        raise _not_similar("a [ is not closed")
    return rf"(?s)\A(?:{''.join(parts)})\z"


def _in_brackets(character: str, named: re.Match[str] | None) -> str:
    if named is not None and named[1].upper() in _CLASSES:
        return _CLASSES[named[1].upper()]
    if character == "[":
        raise _not_similar(
            f"there is no class {named[0]}"
            if named is not None
            else "a [ in brackets does not start a class such as [:DIGIT:]"
        )
    return character if character in "-^]" else _literal(character)


def _literal(character: str) -> str:
    return character if character.isalnum() or not character.isascii() else f"\\{character}"


def _not_similar(reason: str) -> ValueError:
    return ValueError(f"[22000] {reason} in the pattern of SIMILAR TO")
