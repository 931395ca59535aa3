"""Names in stores that fold what has no quotes to upper case, where we fold it to lower case: `orders` here is `ORDERS` there."""

from __future__ import annotations


def folded(name: str) -> str:
    """As the store has a name of ours."""
    return name.upper() if name.isascii() and name.isidentifier() and name == name.lower() else name


def unfolded(name: str) -> str:
    """As we have a name of the store's."""
    return name.lower() if name.isascii() and name.isidentifier() and name == name.upper() else name


def unfolded_all(names: list[str]) -> dict[str, str]:
    """Of names that stand together what we call each. One that is in lower case there hides the one that would be here."""
    return {name: name if unfolded(name) in names else unfolded(name) for name in names}
