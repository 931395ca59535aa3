"""The `.slt` files of the project: those of `headrace test` (`headrace.testing.runner` has the format), and the servers of other stores.

The first line of a file is its requirement: `# needs catalog` (no server, no Spark: `make check` runs it in process), `# needs pool`
(a compute pool) or `# needs kill` (a pool whose driver or server it kills or restarts). Its variables are the other servers that it needs.
`${seed}` is a text unique to the run, `${bootstrap}` the broker's address, `${registry}` the URL of a schema registry, which is started
for the files that have it, and `${registry_server}` that URL without its path.

    $ register SUBJECT [type=PROTOBUF] [reference=NAME:SUBJECT]
                                        the schema that follows (of Avro) is the subject's next version, and refers to a first one
    $ registry stops                    ${registry_front}, by which the files reach the registry, answers no more
    $ descriptors NAME                  a descriptor source of the `.proto` file that follows
    $ jar NAME ENTRY…                   a function source of a JAR with these classes, which have no code
    $ functions NAME                    a function source of the JARs of tests/user_functions
    $ split NAME NUMBER                 split a shard of a stream of the Kinesis stand-in
    $ refuse OPERATION CODE             from now on it refuses the requests of an operation so; `$ refuse nothing`
    $ file KEY                          put a file of the lines that follow into the bucket of the S3 stand-in; of a name in .parquet or
                                        .avro one of the rows that they are as JSON
    $ postgresql | $ clickhouse | $ databricks | $ snowflake [rowsort]
                                        SQL for that server of the files that have one; with `----` the rows of its last
                                        statement, in the end
    $ iceberg NAME [glue] [snapshot=VARIABLE]
                                        the rows of the table, by PyIceberg, are in the end and in any order those after `----`; the
                                        snapshot that has them has this id from then on
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from google.protobuf.descriptor_pb2 import FileDescriptorSet

from harness.apicurio import register
from harness.jar import jar_of
from harness.java_functions import functions_jar, libraries_jar
from harness.patience import PATIENCE
from headrace.formats.protobuf_text import parse_proto
from headrace.testing import runner
from headrace.testing.runner import Broker, Door
from headrace.testing.script import Record, row_text


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


def needs(path: Path) -> str:
    """Return the requirement in a file's first line: `catalog`, `pool` or `kill`."""
    first, _, _ = path.read_text(encoding="utf-8").partition("\n")
    assert first in [f"# needs {need}" for need in NEEDS], f"{path.name}: {first!r} is no line '# needs ...'"
    return first.split()[-1]


class Runner(runner.Runner):
    """Runs the project's files; `broker` is None for files that need a catalog only."""

    def __init__(
        self,
        door: Door,
        broker: Broker | None,
        *,
        streams: Streams | None = None,
        front: Front | None = None,
        bucket: Bucket | None = None,
        stop_registry: Callable[[], None] | None = None,
        **variables: str,
    ) -> None:
        super().__init__(door, broker, patience=PATIENCE, **variables)
        self._streams = streams
        self._front = front
        self._bucket = bucket
        self._stop_registry = stop_registry
        self.postgresql: Callable[[str], list[tuple[Any, ...]]] | None = None
        self.clickhouse: Callable[[str], list[tuple[Any, ...]]] | None = None
        self.snowflake: Callable[[str], list[tuple[Any, ...]]] | None = None
        self.databricks: Callable[[str], list[tuple[Any, ...]]] | None = None
        self.iceberg: Callable[..., tuple[int | None, list[dict[str, Any]]]] | None = None
        self._directives |= {
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
        }

    def run(self, path: Path) -> None:
        needs(path)
        super().run(path)

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
        files = {"x.jar": functions_jar(), "y.jar": libraries_jar()}
        properties = "'file' = '@/y/x.jar', 'lib' = '@/y/y.jar'"
        self._door.execute(f"CREATE FUNCTION_SOURCE {record.words[1]} WITH ({properties});", files)

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
            return [row_text([None if cell is None else str(cell) for cell in row]) for row in server(last)]

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
            return sorted(row_text(row) for row in cells)

        self._eventually(record, rows)

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
