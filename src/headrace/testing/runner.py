"""Runs one `.slt` file through a door: the directives that any pipeline needs.

statement ok                        the statements that follow succeed
statement error 3D020 /regex/       the statement that follows fails so
query [rowsort] [eventually]        its rows are those after `----`, at once or in the end (tab-separated,
                                    NULL for a null, \\n for a line break, <any> for any cell)
stream [rowsort] [ops]              a live SELECT or PRINT; its first rows are those after `----`, in any order if
                                    `rowsort`, with `ops` each behind what it does to its key. `$ produce` records
                                    between its SQL and `----` run once it is live
stream error 3D020 /regex/          one that fails so once it runs
explain                             EXPLAIN of the statement is the lines after `----`, without empty lines
$ run FILE                          the statements of a file succeed; its path is relative to the .slt file
$ entity NAME [partitions=N]        create a topic
$ grow NAME partitions=N            add partitions to a topic
$ produce NAME [partition=N] [timestamp=TIME]
                                    one record a line: JSON, or KEY|JSON; an empty JSON is a tombstone. TIME is in milliseconds since
                                    1970, or such as 2026-01-01T00:00:00Z
$ consume NAME [rowsort] [bykey] [keys]
                                    committed records, as sorted-key JSON (with `keys`: KEY|JSON); `bykey` keeps the last of each key
$ wait NAME STATE                   the query that writes the relation NAME, or the application NAME, is in that state
$ message NAME /regex/              and its message matches
$ restart server | $ kill server | $ kill driver
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from confluent_kafka import KafkaException

from headrace.client import ClientError, LiveRow, RequestRefusedError
from headrace.client.attachments import attached
from headrace.core.suggestions import nearest
from headrace.sql import split
from headrace.testing.patience import Patience
from headrace.testing.script import (
    ExpectationError,
    Record,
    canonical,
    compare,
    difference,
    read,
    row_text,
    with_expected,
)

_STEPS = "\nSpark plan:\n"
"""Heading of the steps that run, which change from release to release while the plan above them does not."""
_CREATES = "CREATE (STREAM|CHANGELOG|TABLE|MATERIALIZED VIEW)|BEGIN APPLICATION"


class StatementError(Exception):
    """A statement that failed, as any door reports it."""

    def __init__(self, sqlstate: str, message: str) -> None:
        super().__init__(f"{sqlstate}: {message}")
        self.sqlstate = sqlstate
        self.message = message


FAILURES = (ExpectationError, StatementError, ClientError, KafkaException, OSError, ValueError)
"""The errors of a file that is wrong, or whose expectations are not met."""

Rows = list[list[str | None]]


class Door(Protocol):
    """A way into the product."""

    def execute(self, sql: str, files: Mapping[str, bytes] | None = None) -> Rows: ...

    def stream(self, sql: str, *, count: int, when_live: Callable[[], None]) -> list[LiveRow]: ...

    def fault(self, words: list[str]) -> None: ...


class Broker(Protocol):
    """Interface of Kafka for the files."""

    @property
    def bootstrap(self) -> str: ...

    def create(self, topic: str, *, partitions: int) -> None: ...

    def grow(self, topic: str, *, partitions: int) -> None: ...

    def produce(
        self,
        topic: str,
        records: list[tuple[str | None, str | None]],
        *,
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> None: ...

    def consume(self, topic: str) -> list[tuple[str | None, str | None]]: ...


class Runner:
    """Runs files through one door; `broker` is None for files that need a catalog only.

    With `update`, the lines that `explain` expects are written to the file instead of compared.
    """

    def __init__(
        self,
        door: Door,
        broker: Broker | None,
        *,
        patience: Patience,
        update: bool = False,
        **variables: str,
    ) -> None:
        self._door = door
        self._broker = broker
        self._patience = patience
        self._update = update
        self._folder = Path()
        self._snapshots: dict[int, list[str]] = {}
        self._variables = {**({"bootstrap": broker.bootstrap} if broker else {}), **variables}
        self._directives: dict[str, Callable[[Record], None]] = {
            "statement": self._statement,
            "query": self._query,
            "stream": self._stream,
            "explain": self._explain,
            "run": self._run,
            "entity": self._entity,
            "grow": self._grow,
            "produce": self._produce,
            "consume": self._consume,
            "wait": self._wait,
            "message": self._message,
            "restart": self._fault,
            "kill": self._fault,
        }

    def run(self, path: Path) -> None:
        """Run the records of a file in order. Raises ExpectationError with file, line and difference."""
        text = path.read_text(encoding="utf-8")
        self._folder = path.parent
        self._snapshots = {}
        for record in read(text, self._filled):
            try:
                self._directive(record)(record)
            except FAILURES as error:
                raise ExpectationError(
                    f"{path.name}:{record.line}: {' '.join(record.words)}\n{error}"
                ) from error
        # From the end, so that the line numbers of the records before stay true.
        updated = text
        for line in sorted(self._snapshots, reverse=True):
            updated = with_expected(updated, line, self._snapshots[line])
        if updated != text:
            path.write_text(updated, encoding="utf-8")

    def _directive(self, record: Record) -> Callable[[Record], None]:
        word = record.words[0]
        if word not in self._directives:
            near = nearest(word, list(self._directives), count=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ExpectationError(f"{word!r} is not a directive{hint}")
        return self._directives[word]

    @property
    def _kafka(self) -> Broker:
        if self._broker is None:
            raise ExpectationError("this file is run without a broker")
        return self._broker

    def _filled(self, text: str) -> str:
        def value(match: re.Match[str]) -> str:
            if match[1] not in self._variables:
                known = ", ".join(sorted(self._variables))
                raise ExpectationError(f"no variable {match[0]}: expected one of {known}")
            return self._variables[match[1]]

        return re.sub(r"\$\{(\w+)\}", value, text)

    def _execute(self, sql: str, folder: Path | None = None) -> Rows:
        files: dict[str, bytes] = {}
        for start, end in split(sql):
            with suppress(RequestRefusedError):  # the server reports that the file is missing
                files |= attached(sql[start:end], folder or self._folder)
        return self._door.execute(sql, files)

    def _statement(self, record: Record) -> None:
        if record.word(1, "ok or error") == "ok":
            self._execute(record.text)
            return
        self._fails(record, lambda: self._execute(record.text))

    def _fails(self, record: Record, run: Callable[[], object]) -> None:
        if record.words[1] != "error":
            raise ExpectationError(f"expected ok or error, found {record.words[1]}")
        state = record.word(2, "a SQLSTATE")
        try:
            run()
        except StatementError as failure:
            if failure.sqlstate != state:
                raise ExpectationError(f"expected {state}, received {failure}") from None
            pattern = _pattern(record.words[3:])
            if not re.search(pattern, failure.message, re.DOTALL):
                raise ExpectationError(f"expected /{pattern}/, received {failure.message}") from None
            return
        raise ExpectationError(f"expected {' '.join(record.words[1:])}, but the statement succeeded")

    def _query(self, record: Record) -> None:
        def rows() -> list[str]:
            return [row_text(row) for row in self._execute(record.text)]

        if "eventually" in record.words:
            self._eventually(record, rows)
        else:
            compare(record, rows())

    def _stream(self, record: Record) -> None:
        def act() -> None:
            for action in record.actions:
                self._directive(action)(action)

        expected = record.expected or []
        if "error" in record.words:
            self._fails(record, lambda: self._door.stream(record.text, count=1, when_live=act))
            return
        rows = self._door.stream(record.text, count=len(expected), when_live=act)
        ops = "ops" in record.words
        compare(record, [row_text([row.op, *row.cells] if ops else row.cells) for row in rows])

    def _explain(self, record: Record) -> None:
        rows = self._execute(f"EXPLAIN {record.text}")
        text = "\n".join(cell or "" for row in rows for cell in row)
        text, _, _ = text.partition(_STEPS)
        lines = [line for line in text.splitlines() if line.strip()]
        if self._update:
            self._snapshots[record.line] = lines
        elif record.expected is None:
            raise ExpectationError("no snapshot yet: run with --update to write it")
        elif lines != record.expected:
            raise ExpectationError(
                f"{difference(record.expected, lines)}\nif the new plan is right: run with --update"
            )

    def _run(self, record: Record) -> None:
        path = self._folder / record.word(1, "the path of a file of statements")
        try:
            sql = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ExpectationError(f"cannot read {path}: {error}") from None
        self._execute(self._filled(sql), path.parent)

    def _entity(self, record: Record) -> None:
        self._kafka.create(record.word(1, "a name"), partitions=int(record.option("partitions") or 1))

    def _grow(self, record: Record) -> None:
        self._kafka.grow(record.word(1, "a name"), partitions=int(record.option("partitions") or 1))

    def _produce(self, record: Record) -> None:
        records: list[tuple[str | None, str | None]] = []
        for line in record.body:
            key, bar, value = line.partition("|") if not line.startswith("{") else ("", "", line)
            records.append((key if bar else None, (value if bar else line) or None))
        partition, timestamp = record.option("partition"), record.option("timestamp")
        self._kafka.produce(
            record.word(1, "a name"),
            records,
            partition=int(partition) if partition else None,
            timestamp=_milliseconds(timestamp) if timestamp else None,
        )

    def _consume(self, record: Record) -> None:
        name = record.word(1, "a name")

        def lines() -> list[str]:
            messages = self._kafka.consume(name)
            if "bykey" in record.words:
                last = dict(messages)
                messages = [(key, value) for key, value in last.items() if value is not None]
            with_keys = "keys" in record.words
            return [
                f"{canonical(key)}|{canonical(value)}" if with_keys else canonical(value)
                for key, value in messages
            ]

        self._eventually(record, lines)

    def _fault(self, record: Record) -> None:
        self._door.fault(record.words)

    def _wait(self, record: Record) -> None:
        relation, record.expected = record.word(1, "a name"), [record.word(2, "a state")]
        self._eventually(record, lambda: [str(self._query_of(relation)[4])])

    def _message(self, record: Record) -> None:
        pattern = _pattern(record.words[2:])
        message = str(self._query_of(record.word(1, "a name"))[9])
        if not re.search(pattern, message, re.DOTALL):
            raise ExpectationError(f"expected /{pattern}/, received {message}")

    def _query_of(self, relation: str) -> list[str | None]:
        """Return the row of LIST QUERIES of the newest query that creates the relation, or of the newest application of that name."""
        creates = re.compile(rf'({_CREATES}) "?{relation}"?\s')
        rows = [row for row in self._door.execute("LIST QUERIES;") if creates.match(str(row[5]))]
        if not rows:
            raise ExpectationError(f"no query creates {relation}")
        return max(rows, key=lambda row: str(row[7]))

    def _eventually(self, record: Record, lines: Callable[[], list[str]]) -> None:
        self._patience.retry(lambda: compare(record, lines()))


def _pattern(words: list[str]) -> str:
    return " ".join(words).strip("/")


def _milliseconds(text: str) -> int:
    if text.lstrip("-").isdigit():
        return int(text)
    try:
        time = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise ExpectationError(
            f"expected milliseconds or a time such as 2026-01-01T00:00:00Z, found {text}"
        ) from None
    aware = time if time.tzinfo else time.replace(tzinfo=datetime.UTC)
    return round(aware.timestamp() * 1000)
