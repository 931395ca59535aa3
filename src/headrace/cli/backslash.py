"""Commands of the prompt, named as in psql, and the SQL that each runs."""

from __future__ import annotations

from headrace.cli.describing import is_name

HELP_WORDS = ("\\?", "\\h", "\\help", "help", "?")
LEAVE_WORDS = ("\\q", "quit", "exit")
DESCRIBE = "\\d"

# Command: SQL without a name, SQL with a name, the kind of name, and a description.
_SQL: dict[str, tuple[str | None, str | None, str, str]] = {
    "\\l": ("LIST DATABASES;", None, "", "databases"),
    "\\dn": ("LIST SCHEMAS;", "LIST SCHEMAS IN DATABASE {};", "[DATABASE]", "schemas"),
    DESCRIBE: ("LIST RELATIONS;", "DESCRIBE RELATION COLUMNS {};", "[NAME]", "relations, or all about one"),
    "\\dt": ("LIST RELATIONS;", "LIST RELATIONS IN SCHEMA {};", "[SCHEMA]", "relations"),
    "\\dv": ("LIST MATERIALIZED VIEWS;", None, "", "materialized views"),
    "\\ds": ("LIST STORES;", "DESCRIBE STORE {};", "[STORE]", "stores, or one"),
    "\\de": ("LIST ENTITIES;", "LIST ENTITIES IN STORE {};", "[STORE]", "entities of a store"),
    "\\dq": ("LIST QUERIES;", "DESCRIBE QUERY {};", "[QUERY]", "queries, or one"),
    "\\dp": ("LIST COMPUTE_POOLS;", "DESCRIBE COMPUTE_POOL {};", "[POOL]", "compute pools, or one"),
    "\\df": ("LIST FUNCTIONS;", "LIST FUNCTIONS LIKE '{}%';", "[NAME]", "functions"),
    "\\dr": ("LIST ROLES;", "DESCRIBE ROLE {};", "[ROLE]", "roles, or one"),
    "\\du": ("LIST ROLES;", None, "", "roles"),
    "\\c": (None, "USE DATABASE {};", "DATABASE", "use another database"),
}
_AT_THE_PROMPT = {
    "\\conninfo": "server and its version, role and compute pool",
    "\\copy (QUERY) TO FILE": "write rows to a .csv, .tsv, .json, .ndjson or .md file",
    "\\e": "edit the last statement in $EDITOR, and run it",
    "\\g [FILE]": "run the statement before it, or the last one, with its rows in a file",
    "\\i FILE": "run the statements of a file",
    "\\live": "show the current rows of a live result in a table that is redrawn, instead of each change, on or off",
    "\\o [FILE]": "write all rows to a file; without a file, to the terminal again",
    "\\pager": "show results that are higher than the terminal by $PAGER, on or off",
    "\\set [NAME VALUE]": "set a variable for :NAME, :'NAME' and :\"NAME\"; or show all",
    "\\timing": "show how long each statement takes, on or off",
    "\\unset NAME": "remove a variable",
    "\\validate FILE": "report the errors of the statements of a file, and run none",
    "\\watch [SECONDS]": "run the statement before it, or the last one, every 2 seconds until Ctrl-C",
    "\\x [on|off|auto]": "show each row as a record; auto: if the row is too wide",
    "\\? help": "this help",
    "\\h STATEMENT": "help for a statement",
    "\\q quit exit": "leave",
}


def commands() -> list[str]:
    """Return all commands."""
    return [*_SQL, *(usage.partition(" ")[0] for usage in _AT_THE_PROMPT)]


def help_text() -> str:
    """Return the help: all commands, a line each."""
    lines = [(f"{command} {name}".rstrip(), meaning) for command, (_, _, name, meaning) in _SQL.items()]
    lines += _AT_THE_PROMPT.items()
    return "\n".join(
        [
            "A statement ends with a semicolon and may span lines. Tab completes it. Ctrl-C ends a running result, Ctrl-D "
            "leaves.",
            *(f"  {command:<23} {meaning}" for command, meaning in lines),
            "LIST and DESCRIBE show other objects (SHOW is the same as LIST).",
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
    if word not in _SQL or (name and not is_name(name)):
        return None
    plain, named, _, _ = _SQL[word]
    return plain if not name else named and named.format(name)


def refusal(text: str) -> str:
    """Return the error text for an unknown command."""
    word, _ = parts(text)
    if word in _SQL:
        usage = f"{word} {_SQL[word][2]}".rstrip()
        return f"headrace: expected {usage}, found {text}"
    if word in LEAVE_WORDS or word in commands():
        return f"headrace: {text} works at the prompt only"
    return f"headrace: unknown command {word}\nhint: The commands are: {' '.join(commands())}. \\? explains them."


def _word(text: str) -> str:
    return text.strip().rstrip(";").partition(" ")[0].lower().rstrip("+")
