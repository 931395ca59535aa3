"""Names in stores that fold unquoted names to upper case. Headrace folds them to lower case: its `orders` is `ORDERS` in the store."""

from __future__ import annotations


def folded(name: str) -> str:
    """Return the store's name for one of ours."""
    return name.upper() if name.isascii() and name.isidentifier() and name == name.lower() else name


def unfolded(name: str) -> str:
    """Return our name for one of the store's."""
    return name.lower() if name.isascii() and name.isidentifier() and name == name.upper() else name


def unfolded_all(names: list[str]) -> dict[str, str]:
    """Return our names for names that stand together. One in lower case there hides its counterpart here."""
    return {name: name if unfolded(name) in names else unfolded(name) for name in names}
