"""Grammar of COPY … TO STDOUT."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.server.postgres.answer import QUERIES
from headrace.server.postgres.copy_format import CopyFormat
from headrace.server.postgres.errors import PostgresError
from headrace.server.postgres.word_reader import WordReader

_PREFIX = "SELECT * FROM "
_DELIMITERS_REFUSED = frozenset("\\.abcdefghijklmnopqrstuvwxyz0123456789")
_TRUE, _FALSE = frozenset({"TRUE", "ON", "1"}), frozenset({"FALSE", "OFF", "0"})
_SOURCES = ("FUNCTION_SOURCE", "DESCRIPTOR_SOURCE")
_STRINGS = ("DELIMITER", "NULL", "QUOTE", "ESCAPE", "ENCODING")


@dataclass(frozen=True)
class Copy:
    """A COPY … TO STDOUT of a query. `offset` is to be added to places in the query, None if they are not in the client's text."""

    query: str
    offset: int | None
    format: CopyFormat


def copy_of(text: str) -> Copy:
    """Return a COPY … TO STDOUT. Raises PostgresError 42601 and 22023 for a wrong one, and 0A000 for other kinds of COPY."""
    words = WordReader(text)
    words.expect("COPY")
    query, offset = _source(words, text)
    if words.next == "FROM":
        raise PostgresError(
            "0A000",
            "COPY FROM is not supported",
            hint="Write rows with INSERT INTO … VALUES, or into the entity in its store.",
            position=words.offset + 1,
        )
    words.expect("TO")
    if not words.take("STDOUT"):
        raise PostgresError(
            "0A000",
            "COPY to a file or a program of the server is not supported",
            hint=r"Use COPY … TO STDOUT, or \copy of psql, which writes the file of the client.",
            position=words.offset + 1,
        )
    options = _options(words)
    words.end()
    return Copy(query, offset, _format(options))


def _source(words: WordReader, text: str) -> tuple[str, int | None]:
    """Return the query, and the offset of its places."""
    start = words.offset
    if words.next == "(":
        words.brackets()
        query = text[start + 1 : words.end_offset - 1]
        inside = WordReader(query)
        if inside.next not in QUERIES:
            raise PostgresError(
                "0A000", "COPY reads a query", hint="Write COPY (SELECT …) TO STDOUT.", position=start + 2
            )
        return query, start + 1
    is_source = words.next in _SOURCES
    words.name()
    if is_source and words.next not in ("TO", "FROM", ".", "("):
        raise PostgresError(
            "0A000",
            "COPY of a source of functions or descriptors is not supported here",
            hint="Use headrace sql.",
        )
    while words.take("."):
        words.name()
    relation, columns = text[start : words.end_offset], words.offset
    if words.next != "(":
        return _PREFIX + relation, start - len(_PREFIX)
    words.brackets()
    return f"SELECT {text[columns + 1 : words.end_offset - 1]} FROM {relation}", None  # noqa: S608 - the client's own SQL


_Option = str | bool | frozenset[str] | None


class _Options:
    """The options that were read, each at most once."""

    def __init__(self) -> None:
        self.values: dict[str, _Option] = {}

    def add(self, name: str, value: _Option, position: int) -> None:
        if name in self.values:
            raise PostgresError("42601", f"the option {name} occurs twice", position=position)
        self.values[name] = value


def _options(words: WordReader) -> dict[str, _Option]:
    options = _Options()
    words.take("WITH")
    if words.take("("):
        while True:
            _option(words, options)
            if not words.take(","):
                break
        words.expect(")")
        return options.values
    # The form before PostgreSQL 9, which psql's users still write.
    while words.left:
        position = words.offset + 1
        if words.take("CSV"):
            options.add("FORMAT", "csv", position)
        elif words.take("BINARY"):
            options.add("FORMAT", "binary", position)
        elif words.take("HEADER"):
            options.add("HEADER", True, position)
        elif words.take("FORCE", "QUOTE"):
            options.add("FORCE_QUOTE", _names(words, is_open=True), position)
        elif words.next in _STRINGS:
            name = words.name().upper()
            words.take("AS")
            options.add(name, words.string(), position)
        else:
            raise words.unexpected("an option of COPY")
    return options.values


def _option(words: WordReader, options: _Options) -> None:
    position = words.offset + 1
    name = words.name().upper()
    if name == "FORMAT":
        value = words.string() if words.next.startswith("'") else words.name()
        options.add(name, value, position)
    elif name == "HEADER":
        value = words.next
        if value in _TRUE | _FALSE:
            words.take(value)
        elif value not in (",", ")"):
            raise words.unexpected("true or false")
        options.add(name, value not in _FALSE, position)
    elif name == "FORCE_QUOTE":
        options.add(name, _names(words), position)
    elif name in _STRINGS:
        options.add(name, words.string(), position)
    else:
        raise PostgresError(
            "42601",
            f"the option {name[:100]} of COPY … TO does not exist",
            hint="The options are FORMAT, HEADER, DELIMITER, NULL, QUOTE, ESCAPE, FORCE_QUOTE and ENCODING.",
            position=position,
        )


def _names(words: WordReader, *, is_open: bool = False) -> frozenset[str] | None:
    """Read `*` (None) or the names of columns, which are in brackets unless the list `is_open`."""
    if words.take("*"):
        return None
    if not is_open:
        words.expect("(")
    names = {words.name()}
    while words.take(","):
        names.add(words.name())
    if not is_open:
        words.expect(")")
    return frozenset(names)


def _format(options: dict[str, _Option]) -> CopyFormat:
    kind = options.get("FORMAT", "text")
    if kind == "binary":
        raise PostgresError(
            "0A000", "COPY in the binary format is not supported", hint="Choose FORMAT text or csv."
        )
    if kind not in ("text", "csv"):
        raise _invalid(f"expected the format text or csv, found {str(kind)[:100]!r}")
    is_csv = kind == "csv"
    for name in ("QUOTE", "ESCAPE", "FORCE_QUOTE"):
        if name in options and not is_csv:
            raise PostgresError("0A000", f"the option {name} of COPY requires FORMAT csv")
    if str(options.get("ENCODING", "UTF8")).upper().replace("-", "") != "UTF8":
        raise PostgresError("0A000", "COPY writes UTF-8 only", hint="Leave out ENCODING.")
    delimiter = str(options.get("DELIMITER", "," if is_csv else "\t"))
    null = str(options.get("NULL", "" if is_csv else "\\N"))
    quote = str(options.get("QUOTE", '"'))
    escape = str(options.get("ESCAPE", quote))
    for name, value in (("DELIMITER", delimiter), ("QUOTE", quote), ("ESCAPE", escape)):
        if len(value) != 1 or not value.isascii() or value in "\n\r\0":
            raise _invalid(f"{name} of COPY is one character of ASCII, and not the end of a line")
    if not is_csv and delimiter in _DELIMITERS_REFUSED:
        raise _invalid(f"DELIMITER of COPY cannot be {delimiter!r}")
    if any(char in null for char in "\n\r\0") or delimiter in null:
        raise _invalid("NULL of COPY cannot contain the delimiter or the end of a line")
    if is_csv and (delimiter == quote or quote in null):
        raise _invalid("QUOTE of COPY cannot be the delimiter or occur in NULL")
    forced = options.get("FORCE_QUOTE", frozenset())
    return CopyFormat(
        is_csv,
        delimiter,
        null,
        quote,
        escape,
        bool(options.get("HEADER", False)),
        forced if isinstance(forced, frozenset) else None,
    )


def _invalid(message: str) -> PostgresError:
    return PostgresError("22023", message)
