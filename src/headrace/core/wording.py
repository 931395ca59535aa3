"""Words of messages that depend on a number or on the word after them."""


def plural(word: str, count: int, many: str | None = None) -> str:
    """Return the form of a word that a count requires: `row` for 1, otherwise `many`, by default `rows`."""
    return word if count == 1 else many or f"{word}s"


def counted(count: int, word: str, many: str | None = None) -> str:
    """Return a count with its word: `1 row`, `2 rows`."""
    return f"{count} {plural(word, count, many)}"


def with_article(words: str) -> str:
    """Return words behind the indefinite article that their sound requires: `an INTEGER`, `an S3 store`, `a UNION`, `a user`."""
    return f"{'an' if words[:1].upper() in tuple('AEIO') or words.startswith('S3') else 'a'} {words}"
