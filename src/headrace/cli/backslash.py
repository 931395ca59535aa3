"""Commands of the prompt, named as in psql, and the SQL that each runs."""

from __future__ import annotations

HELP_WORDS = ("\\?", "\\h", "\\help", "help", "?")
LEAVE_WORDS = ("\\q", "quit", "exit")

# Command: SQL without a name, SQL with a name, the kind of name, and a description.
_SQL: dict[str, tuple[str | None, str | None, str, str]] = {
    "\\l": ("LIST DATABASES;", None, "", "databases"),
    "\\dn": ("LIST SCHEMAS;", "LIST SCHEMAS IN DATABASE {};", "[DATABASE]", "schemas"),
    "\\d": ("LIST RELATIONS;", "DESCRIBE RELATION COLUMNS {};", "[NAME]", "relations, or the columns of one"),
    "\\dt": ("LIST RELATIONS;", "LIST RELATIONS IN SCHEMA {};", "[SCHEMA]", "relations"),
    "\\dv": ("LIST MATERIALIZED VIEWS;", None, "", "materialized views"),
    "\\du": ("LIST ROLES;", None, "", "roles"),
    "\\c": (None, "USE DATABASE {};", "DATABASE", "use another database"),
}
_AT_THE_PROMPT = {
    "\\conninfo": "server, role and compute pool",
    "\\i FILE": "run the statements of a file",
    "\\validate FILE": "report the errors of the statements of a file, and run none",
    "\\x": "show each row as a separate record, on or off",
    "\\? \\h help": "this help",
    "\\q quit exit": "leave",
}


def help_text() -> str:
    """Return the help: all commands, a line each."""
    lines = [(f"{command} {name}".rstrip(), meaning) for command, (_, _, name, meaning) in _SQL.items()]
    lines += _AT_THE_PROMPT.items()
    return "\n".join(
        [
            "A statement ends with a semicolon and may span lines. Ctrl-C ends a running result, Ctrl-D "
            "leaves.",
            *(f"  {command:<15} {meaning}" for command, meaning in lines),
            "LIST STORES; LIST ENTITIES; and LIST QUERIES; show other objects (SHOW is the same), DESCRIBE … "
            "shows one of them.",
        ]
    )


def is_command(text: str) -> bool:
    """True if `text` is for the prompt rather than for the server."""
    return text.startswith("\\") or _word(text) in (*HELP_WORDS, *LEAVE_WORDS)


def parts(text: str) -> tuple[str, str]:
    """Split a command into its word and its argument. A final semicolon and a `+` are dropped."""
    argument = text.strip().rstrip(";").partition(" ")[2].strip()
    return _word(text), argument


def sql_of(text: str) -> str | None:
    """Return the SQL of a backslash command; None if the command is unknown, or if its number of names is wrong."""
    word, name = parts(text)
    if word not in _SQL:
        return None
    plain, named, _, _ = _SQL[word]
    return plain if not name else named and named.format(name)


def refusal(text: str) -> str:
    """Return the error text for an unknown command."""
    known = " ".join([*_SQL, "\\conninfo", "\\i", "\\validate", "\\x", "\\?", "\\q"])
    word, _ = parts(text)
    if word in _SQL:
        usage = f"{word} {_SQL[word][2]}".rstrip()
        return f"headrace: expected {usage}, found {text}"
    if word in LEAVE_WORDS or any(word == usage.partition(" ")[0] for usage in _AT_THE_PROMPT):
        return f"headrace: {text} works at the prompt only"
    return f"headrace: unknown command {word}\nhint: The commands are: {known}. \\? explains them."


def _word(text: str) -> str:
    return text.strip().rstrip(";").partition(" ")[0].lower().rstrip("+")
