"""Statements of PostgreSQL that concern the connection alone: transactions, settings and prepared statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from headrace.core.context import SessionContext
from headrace.server.postgres.answer import Answer
from headrace.server.postgres.cursors import Cursors
from headrace.server.postgres.errors import PostgresError
from headrace.server.postgres.parameters import Prepared
from headrace.server.postgres.types import TEXT, Column
from headrace.server.postgres.variables import Variables
from headrace.server.postgres.word_reader import tokens

NOTHING_UNDONE = "statements take effect at once: ROLLBACK undid nothing"


@dataclass
class State:
    """Prepared statements, cursors and settings of a connection; `transaction` is I (none), T (open) or E (failed)."""

    context: SessionContext
    variables: Variables
    prepared: dict[str, Prepared] = field(default_factory=dict)
    cursors: Cursors = field(default_factory=Cursors)
    transaction: str = "I"
    has_changed: bool = False

    def set(self, name: str, value: str | None) -> None:
        """Set a setting, and what follows from it. Raises PostgresError."""
        self.variables.set(name, value)
        self.follow()

    def follow(self) -> None:
        """Copy the schema and the time zone from the settings into the context."""
        self.context = replace(
            self.context,
            schema=self.variables.schema or self.context.schema,
            timezone=self.variables.get("timezone") or "UTC",
        )

    def refuse_failed(self) -> None:
        """Raise PostgresError 25P02 if the transaction has failed."""
        if self.transaction == "E":
            raise PostgresError("25P02", "the transaction has failed; statements are ignored until its end")


@dataclass(frozen=True)
class Setting:
    """A SET: name and value, None for the initial value."""

    name: str
    value: str | None


def own_answer(first: Sequence[str], state: State) -> Answer | None:
    """Answer a statement that starts or ends transactions, or frees what the connection keeps; None for any other. Raises PostgresError."""
    verb = first[0]
    if verb in _TRANSACTIONS and tuple(first[:2]) != _PRODUCT:
        answer = _TRANSACTIONS[verb](first, state)
        if answer is not None:
            return answer
    state.refuse_failed()
    if verb == "DISCARD":
        state.prepared.clear()
        state.variables.reset()
        state.follow()
        return Answer(" ".join(first[:2]))
    if verb in ("LISTEN", "UNLISTEN"):
        return Answer(verb)
    if verb in ("PREPARE", "EXECUTE", "LOCK", "NOTIFY"):
        raise PostgresError(
            "0A000", f"{verb} is not supported", hint="Use a prepared statement of the client's driver."
        )
    return None


def deallocated(text: str, first: Sequence[str], state: State) -> Answer | None:
    """Answer DEALLOCATE; None for any other statement. Raises PostgresError 26000 for an unknown prepared statement."""
    if first[0] != "DEALLOCATE":
        return None
    name = text.split()[-1]
    name = name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()
    if first[-1] == "ALL":
        state.prepared.clear()
        return Answer("DEALLOCATE ALL")
    if state.prepared.pop(name, None) is None:
        raise PostgresError("26000", f"the prepared statement {name[:100]!r} does not exist")
    return Answer("DEALLOCATE")


def setting_of(text: str, first: Sequence[str]) -> Setting | None:
    """Return the setting of a SET or RESET; None for any other statement, and with an empty name for one without an effect. Raises
    PostgresError 42601."""
    if first[0] not in ("SET", "RESET") or first[1:2] == ["DEFAULT"]:
        return None
    words = [match.group() for match in tokens(text)[1:]]
    if first[0] == "RESET":
        return Setting("".join(words), None)
    if words and words[0].upper() in ("SESSION", "LOCAL") and len(words) > 1:
        words = words[1:]
    upper = [word.upper() for word in words]
    if upper[:1] in (["TRANSACTION"], ["CHARACTERISTICS"]):
        return Setting("", None)
    if upper[:2] == ["TIME", "ZONE"]:
        words = ["timezone", "=", *words[2:]]
    elif upper[:1] in (["ROLE"], ["NAMES"]) and len(words) == 2:
        words = ["role" if upper[0] == "ROLE" else "client_encoding", "=", words[1]]
    at = next((place for place, word in enumerate(words) if word == "=" or word.upper() == "TO"), 0)
    if at == 0 or at == len(words) - 1:
        raise PostgresError("42601", "expected SET name = value", hint="Write SET name TO 'value'.")
    value = _value(words[at + 1 :])
    return Setting("".join(words[:at]), None if value.upper() in ("DEFAULT", "LOCAL") else value)


def shown(text: str, first: Sequence[str], variables: Variables) -> Answer | None:
    """Answer SHOW of a setting; None for any other statement."""
    if first[0] != "SHOW":
        return None
    rest = " ".join(first[1:])
    if rest == "ALL":
        columns = tuple(Column(name, TEXT) for name in ("name", "setting", "description"))
        return Answer("SHOW", columns, [(name, value, "") for name, value in variables])
    name = {"TRANSACTION ISOLATION LEVEL": "transaction_isolation", "TIME ZONE": "timezone"}.get(rest, "")
    name = name or text.split(None, 1)[-1].strip().strip('"').lower()
    value = variables.get(name)
    return Answer("SHOW", (Column(name, TEXT),), [(value,)]) if value is not None else None


def _value(words: Sequence[str]) -> str:
    """Return the value of a SET, of several a list."""
    parts: list[str] = []
    for word in words:
        if word.startswith("'"):
            word = word[1:-1].replace("''", "'")
        parts.append(word)
    return "".join(part + (" " if part == "," else "") for part in parts)


def _begin(first: Sequence[str], state: State) -> Answer:
    state.refuse_failed()
    notice = "a transaction is open already" if state.transaction == "T" else None
    if state.transaction == "I":
        state.transaction, state.has_changed = "T", False
    return Answer("START TRANSACTION" if first[0] == "START" else "BEGIN", notice=notice)


def _commit(_first: Sequence[str], state: State) -> Answer:
    tag = "ROLLBACK" if state.transaction == "E" else "COMMIT"
    state.transaction = "I"
    return Answer(tag)


def _rollback(first: Sequence[str], state: State) -> Answer:
    if "TO" in first:
        state.transaction = "T" if state.transaction == "E" else state.transaction
        return Answer("ROLLBACK")
    notice = NOTHING_UNDONE if state.has_changed and state.transaction != "I" else None
    state.transaction = "I"
    return Answer("ROLLBACK", notice=notice)


def _savepoint(first: Sequence[str], state: State) -> Answer:
    state.refuse_failed()
    return Answer(first[0])


def _start(first: Sequence[str], state: State) -> Answer | None:
    return _begin(first, state) if first[1:2] == ["TRANSACTION"] else None


_PRODUCT = ("BEGIN", "APPLICATION")
_TRANSACTIONS: dict[str, Callable[[Sequence[str], State], Answer | None]] = {
    "BEGIN": _begin,
    "START": _start,
    "COMMIT": _commit,
    "END": _commit,
    "ROLLBACK": _rollback,
    "ABORT": _rollback,
    "SAVEPOINT": _savepoint,
    "RELEASE": _savepoint,
}
