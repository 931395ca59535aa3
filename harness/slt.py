"""The `.slt` files: end-to-end scripts of statements, streams and faults, and what must come of them.

The first line of a file says what it needs: `# needs catalog` (no server, no Spark: `make check` runs it in process), `# needs pool`
(a compute pool) or `# needs kill` (a pool whose driver or server it kills or restarts). Its variables say which other servers it needs.

A file is a list of records, separated by blank lines; `#` begins a comment line. `${seed}` is a text unique to the run, `${bootstrap}` the
broker's address, `${registry}` the URL of a schema registry, which is started for the files that have it, and `${registry_server}` that URL
without its path.

    statement ok                        the statements that follow succeed
    statement error 3D020 /regex/       the statement that follows fails so
    query [rowsort] [eventually]        its rows are those after `----`, at once or in the end (tab-separated,
                                        NULL for a null, \\n for a line break, <any> for any cell)
    stream [rowsort] [ops]              a live SELECT or PRINT; its first rows are those after `----`, in any order if
                                        `rowsort`, with `ops` each behind what it does to its key. `$ produce` records
                                        between its SQL and `----` run once it is live
    stream error 3D020 /regex/          one that fails so once it runs
    $ entity NAME [partitions=N]        make a topic
    $ produce NAME [partition=N] [timestamp=MS]
                                        one record a line: JSON, or KEY|JSON; an empty JSON is a tombstone
    $ consume NAME [rowsort] [bykey] [keys]
                                        committed records, as sorted-key JSON (with `keys`: KEY|JSON); `bykey` keeps the last of each key
    $ register SUBJECT [type=PROTOBUF] [reference=NAME:SUBJECT]
                                        the schema that follows (of Avro) is the subject's next version, and refers to a first one
    $ registry stops                    ${registry_front}, by which the files reach the registry, answers no more
    $ descriptors NAME                  a descriptor source of the `.proto` file that follows
    $ jar NAME ENTRY…                   a function source of a JAR with these classes, which have no code
    $ functions NAME                    a function source of the JAR of tests/user_functions
    $ split NAME NUMBER                 split a shard of a stream of the Kinesis stand-in
    $ refuse OPERATION CODE             from now on it refuses the requests of an operation so; `$ refuse nothing`
    $ file KEY                          put a file of the lines that follow into the bucket of the S3 stand-in; of a name in .parquet or
                                        .avro one of the rows that they are as JSON
    $ wait NAME STATE                   the query that writes the relation NAME, or the application NAME, is in that state
    $ message NAME /regex/              and its message matches
    $ postgresql | $ clickhouse | $ databricks | $ snowflake [rowsort]
                                        SQL for that server of the files that have one; with `----` the rows of its last
                                        statement, in the end
    $ iceberg NAME [glue] [snapshot=VARIABLE]
                                        the rows of the table, by PyIceberg, are in the end and in any order those after `----`; the
                                        snapshot that has them has this id from then on
    $ restart server | $ kill server | $ kill driver
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from google.protobuf.descriptor_pb2 import FileDescriptorSet

from harness.apicurio import register
from harness.jar import jar_of
from harness.java_functions import functions_jar
from harness.patience import PATIENCE_S
from headrace.client import LiveRow
from headrace.formats.protobuf_text import parse_proto


class StatementError(Exception):
    """A statement that failed, as any door reports it."""

    def __init__(self, sqlstate: str, message: str) -> None:
        super().__init__(f"{sqlstate}: {message}")
        self.sqlstate = sqlstate
        self.message = message


Rows = list[list[str | None]]


class Door(Protocol):
    """A way into the product: in process, or over REST."""

    def execute(self, sql: str, files: Mapping[str, bytes] | None = None) -> Rows: ...

    def stream(self, sql: str, *, count: int, when_live: Callable[[], None]) -> list[LiveRow]: ...

    def fault(self, words: list[str]) -> None: ...


class Broker(Protocol):
    """Interface of Kafka for the files."""

    bootstrap: str

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


class Streams(Protocol):
    """Interface of the Kinesis replacement for the files."""

    def split(self, stream: str, shard: str) -> None: ...


class Front(Protocol):
    """Interface of the front before the replacement."""

    def refuse(self, operation: str, code: str) -> None: ...

    def pass_on(self) -> None: ...


class Bucket(Protocol):
    """Interface of the S3 replacement for the files."""

    def put_lines(self, key: str, lines: list[str]) -> None: ...


NEEDS = ("catalog", "pool", "kill")


@dataclass
class Record:
    """A record of a file."""

    line: int
    words: list[str]
    body: list[str]
    expected: list[str] | None
    actions: list[Record] = field(default_factory=list)

    def option(self, name: str) -> str | None:
        """The value of `name=value`, or None."""
        return next((word.split("=", 1)[1] for word in self.words if word.startswith(name + "=")), None)


def read(text: str, filled: Callable[[str], str] = str) -> Iterator[Record]:
    """Return the records of a file's text; `filled` replaces variables when a record runs."""
    for start, lines in _blocks(text):
        block = filled("\n".join(lines)).splitlines()
        words = block[0].removeprefix("$").split()
        rest = block[1:]
        expected: list[str] | None = None
        if "----" in rest:
            cut = rest.index("----")
            rest, expected = rest[:cut], rest[cut + 1 :]
        actions: list[Record] = []
        if words[0] == "stream":
            marks = [number for number, line in enumerate(rest) if line.startswith("$ ")]
            ends = [*marks[1:], len(rest)][: len(marks)]
            for mark, end in zip(marks, ends, strict=True):
                actions.append(
                    Record(start + mark, rest[mark].removeprefix("$").split(), rest[mark + 1 : end], None)
                )
            rest = rest[: marks[0]] if marks else rest
        yield Record(start, words, rest, expected, actions)


def needs(path: Path) -> str:
    """Return the requirement in a file's first line: `catalog`, `pool` or `kill`."""
    first, _, _ = path.read_text(encoding="utf-8").partition("\n")
    assert first in [f"# needs {need}" for need in NEEDS], f"{path.name}: {first!r} is no line '# needs ...'"
    return first.split()[-1]


def _blocks(text: str) -> Iterator[tuple[int, list[str]]]:
    block: list[str] = []
    start = 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.startswith("#"):
            continue
        if line.strip():
            if not block:
                start = number
            block.append(line)
        elif block:
            yield start, block
            block = []


class Runner:
    """Runs files through one door; `broker` is None for files that need a catalog only."""

    def __init__(
        self,
        door: Door,
        broker: Broker | None,
        *,
        seed: str,
        streams: Streams | None = None,
        front: Front | None = None,
        bucket: Bucket | None = None,
        stop_registry: Callable[[], None] | None = None,
        **variables: str,
    ) -> None:
        self._door = door
        self._broker = broker
        self._streams = streams
        self._front = front
        self._bucket = bucket
        self._stop_registry = stop_registry
        self._needs = ""
        self._variables = {"seed": seed, **({"bootstrap": broker.bootstrap} if broker else {}), **variables}
        self.postgresql: Callable[[str], list[tuple[Any, ...]]] | None = None
        self.clickhouse: Callable[[str], list[tuple[Any, ...]]] | None = None
        self.snowflake: Callable[[str], list[tuple[Any, ...]]] | None = None
        self.databricks: Callable[[str], list[tuple[Any, ...]]] | None = None
        self.iceberg: Callable[..., tuple[int | None, list[dict[str, Any]]]] | None = None
        self._actions: dict[str, Callable[[Record], None]] = {
            "statement": self._statement,
            "query": self._query,
            "stream": self._stream,
            "entity": self._entity,
            "grow": self._grow,
            "produce": self._produce,
            "consume": self._consume,
            "register": self._register,
            "descriptors": self._descriptors,
            "jar": self._jar,
            "functions": self._functions,
            "registry": self._registry,
            "postgresql": self._sql_of,
            "clickhouse": self._sql_of,
            "databricks": self._sql_of,
            "snowflake": self._sql_of,
            "iceberg": self._rows_of_iceberg,
            "split": self._split,
            "refuse": self._refuse,
            "file": self._file,
            "wait": self._wait,
            "message": self._message,
            "restart": self._fault,
            "kill": self._fault,
        }

    def run(self, path: Path) -> None:
        """Raises AssertionError with file, line and difference."""
        self._needs = needs(path)
        for record in read(path.read_text(), self._filled):
            try:
                self._actions[record.words[0]](record)
            except (AssertionError, StatementError) as error:
                raise AssertionError(
                    f"{path.name}:{record.line}: {' '.join(record.words)}\n{error}"
                ) from error

    @property
    def _kafka(self) -> Broker:
        assert self._broker is not None, "expected '# needs pool' in the first line"
        return self._broker

    def _filled(self, text: str) -> str:
        return re.sub(r"\$\{(\w+)\}", lambda match: self._variables[match.group(1)], text)

    def _register(self, record: Record) -> None:
        name, _, subject = (record.option("reference") or "").partition(":")
        register(
            self._variables["registry"],
            record.words[1],
            "\n".join(record.body),
            record.option("type") or "AVRO",
            [{"name": name, "subject": subject, "version": 1}] if subject else [],
        )

    def _registry(self, _record: Record) -> None:
        assert self._stop_registry is not None, "expected a file that names ${registry_front}"
        self._stop_registry()

    def _descriptors(self, record: Record) -> None:
        name = record.words[1]
        compiled = FileDescriptorSet(file=[parse_proto("\n".join(record.body), f"{name}.proto")])
        files = {"x.desc": compiled.SerializeToString()}
        self._door.execute(f"CREATE DESCRIPTOR_SOURCE {name} WITH ('file' = '@/y/x.desc');", files)

    def _jar(self, record: Record) -> None:
        name, *classes = record.words[1:]
        self._door.execute(f"CREATE FUNCTION_SOURCE {name} FROM '@/y/x.jar';", {"x.jar": jar_of(*classes)})

    def _functions(self, record: Record) -> None:
        files = {"x.jar": functions_jar()}
        self._door.execute(f"CREATE FUNCTION_SOURCE {record.words[1]} FROM '@/y/x.jar';", files)

    def _statement(self, record: Record) -> None:
        sql = "\n".join(record.body)
        if record.words[1] == "ok":
            self._door.execute(sql)
            return
        self._fails(record, lambda: self._door.execute(sql))

    def _fails(self, record: Record, run: Callable[[], object]) -> None:
        failure = self._failure(run)
        assert failure is not None, f"expected {' '.join(record.words[1:])}, but the statement succeeded"
        assert failure.sqlstate == record.words[2], f"expected {record.words[2]}, found {failure}"
        pattern = " ".join(record.words[3:]).strip("/")
        assert re.search(pattern, failure.message, re.DOTALL), f"expected {pattern}, found {failure.message}"

    def _failure(self, run: Callable[[], object]) -> StatementError | None:
        try:
            run()
        except StatementError as failure:
            return failure
        return None

    def _query(self, record: Record) -> None:
        sql = "\n".join(record.body)

        def rows() -> list[str]:
            return [_line(row) for row in self._door.execute(sql)]

        if "eventually" in record.words:
            self._eventually(record, rows)
        else:
            _compare(record, rows())

    def _stream(self, record: Record) -> None:
        def act() -> None:
            for action in record.actions:
                self._actions[action.words[0]](action)

        sql, expected = "\n".join(record.body), record.expected or []
        if "error" in record.words:
            self._fails(record, lambda: self._door.stream(sql, count=1, when_live=act))
            return
        rows = self._door.stream(
            sql,
            count=len(expected),
            when_live=act,
        )
        ops = "ops" in record.words
        _compare(record, [_line([row.op, *row.cells] if ops else row.cells) for row in rows])

    def _entity(self, record: Record) -> None:
        self._kafka.create(record.words[1], partitions=int(record.option("partitions") or 1))

    def _grow(self, record: Record) -> None:
        self._kafka.grow(record.words[1], partitions=int(record.option("partitions") or 1))

    def _produce(self, record: Record) -> None:
        records: list[tuple[str | None, str | None]] = []
        for line in record.body:
            key, bar, value = line.partition("|") if not line.startswith("{") else ("", "", line)
            records.append((key if bar else None, value or None))
        partition, timestamp = record.option("partition"), record.option("timestamp")
        self._kafka.produce(
            record.words[1],
            records,
            partition=int(partition) if partition else None,
            timestamp=int(timestamp) if timestamp else None,
        )

    def _sql_of(self, record: Record) -> None:
        servers = {
            "postgresql": self.postgresql,
            "clickhouse": self.clickhouse,
            "databricks": self.databricks,
            "snowflake": self.snowflake,
        }
        server = servers[record.words[0]]
        assert server is not None, f"this run has no server for {record.words[0]}"
        *before, last = "\n".join(record.body).rstrip().rstrip(";").split(";\n")
        for statement in before:
            server(statement)

        def rows() -> list[str]:
            return [_line([None if cell is None else str(cell) for cell in row]) for row in server(last)]

        if record.expected is None:
            rows()
        else:
            self._eventually(record, rows)

    def _rows_of_iceberg(self, record: Record) -> None:
        assert self.iceberg is not None, "this run has no Iceberg catalog"
        run = self.iceberg

        def rows() -> list[str]:
            snapshot, table_rows = run(record.words[1], glue="glue" in record.words)
            self._variables[record.option("snapshot") or "snapshot"] = str(snapshot)
            cells = ([None if cell is None else str(cell) for cell in row.values()] for row in table_rows)
            return sorted(_line(row) for row in cells)

        self._eventually(record, rows)

    def _consume(self, record: Record) -> None:
        def lines() -> list[str]:
            messages = self._kafka.consume(record.words[1])
            if "bykey" in record.words:
                last = dict(messages)
                messages = [(key, value) for key, value in last.items() if value is not None]
            with_keys = "keys" in record.words
            return [
                f"{_canonical(key)}|{_canonical(value)}" if with_keys else _canonical(value)
                for key, value in messages
            ]

        self._eventually(record, lines)

    def _split(self, record: Record) -> None:
        assert self._streams is not None, "expected a file that names ${kinesis}"
        self._streams.split(record.words[1], f"shardId-{int(record.words[2]):012d}")

    def _refuse(self, record: Record) -> None:
        assert self._front is not None, "expected a file that names ${kinesis}"
        if record.words[1:] == ["nothing"]:
            self._front.pass_on()
        else:
            self._front.refuse(*record.words[1:])

    def _file(self, record: Record) -> None:
        assert self._bucket is not None, "expected a file that names ${s3}"
        self._bucket.put_lines(record.words[1], record.body)

    def _fault(self, record: Record) -> None:
        assert self._needs == "kill", "expected '# needs kill' in the first line"
        self._door.fault(record.words)

    def _wait(self, record: Record) -> None:
        relation, state = record.words[1:3]
        record.expected = [state]
        self._eventually(record, lambda: [str(self._query_of(relation)[4])])

    def _message(self, record: Record) -> None:
        pattern = " ".join(record.words[2:]).strip("/")
        message = str(self._query_of(record.words[1])[9])
        assert re.search(pattern, message, re.DOTALL), f"expected {pattern}, found {message}"

    def _query_of(self, relation: str) -> list[str | None]:
        """The row of LIST QUERIES of the newest query that creates the relation, or of the newest application of that name."""
        kinds = "CREATE (STREAM|CHANGELOG|TABLE|MATERIALIZED VIEW)|BEGIN APPLICATION"
        creates = re.compile(rf'({kinds}) "?{relation}"?\s')
        rows = [row for row in self._door.execute("LIST QUERIES;") if creates.match(str(row[5]))]
        assert rows, f"no query creates {relation}"
        return max(rows, key=lambda row: str(row[7]))

    def _eventually(self, record: Record, read_lines: Callable[[], list[str]]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                _compare(record, read_lines())
                return
            except AssertionError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.3)


def _compare(record: Record, actual: list[str]) -> None:
    if record.expected is None:
        raise ValueError(f"line {record.line}: expected ---- and what must be found")
    expected = list(record.expected)
    if "rowsort" in record.words or "bykey" in record.words:
        expected, actual = sorted(expected), sorted(actual)
    same = len(expected) == len(actual) and all(
        _same(left, right) for left, right in zip(expected, actual, strict=True)
    )
    assert same, "expected\n  " + "\n  ".join(expected) + "\nfound\n  " + "\n  ".join(actual)


def _same(expected: str, actual: str) -> bool:
    if "<any>" not in expected:
        return expected == actual
    left, right = expected.split("\t"), actual.split("\t")
    return len(left) == len(right) and all(a in ("<any>", b) for a, b in zip(left, right, strict=True))


def _line(row: Sequence[str | None]) -> str:
    return "\t".join("NULL" if cell is None else cell.replace("\n", "\\n") for cell in row)


def _canonical(value: str | None) -> str:
    if value is None or not value.startswith("{"):
        return value or ""
    return json.dumps(json.loads(value), sort_keys=True, separators=(",", ":"))
