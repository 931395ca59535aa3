"""Tables as a streaming source of Spark's, in Python: it lives in one worker of its query.

An offset is a reader's `Progress`. The log gives the same changes again for as long as they are not confirmed; rows that a
table had at some time cannot be read again, so they are kept in files beside the checkpoint until Spark has committed them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from headrace.connectors.carried_errors import carrying_errors
from headrace.connectors.checkpoint_store import CheckpointStore, store_of
from headrace.connectors.postgresql import reader, rows
from headrace.connectors.postgresql.changes import Table
from headrace.connectors.postgresql.reader import TableReader
from headrace.connectors.postgresql.rows import Layout
from headrace.connectors.postgresql.snapshot import Progress
from headrace.core.schema import Column
from headrace.core.types import parse_type

CHANGES_PER_READ = 20_000
READING = "secret_reading"
"""What Spark shows of options it shows without the values of those whose names say that they are secret."""
_WAIT_S = 0.05
_PROGRESS = b"progress"

Offset = dict[str, Any]


@dataclass(frozen=True)
class Reading:
    """Settings of a worker; `kept` are the facts of the place for data that must outlive the worker, None if there is none."""

    store: Mapping[str, str]
    database: str | None
    slot: str
    tables: tuple[Table, ...]
    layout: Layout
    with_rows: bool
    per_read: int
    kept: Mapping[str, str] | None

    def to_json(self) -> str:
        """Return the request as text, with the secrets of the store and of the checkpoint's."""
        columns = [(column.name, str(column.type)) for column in self.layout.columns]
        return json.dumps({**asdict(self), "layout": {**asdict(self.layout), "columns": columns}})

    @classmethod
    def from_json(cls, text: str) -> Reading:
        """Return the opposite of `to_json`."""
        data = json.loads(text)
        columns = tuple(Column(name, parse_type(kind)) for name, kind in data["layout"]["columns"])
        data["layout"] = Layout(**{**data["layout"], "columns": columns})
        data["tables"] = tuple(_table(table) for table in data["tables"])
        return cls(**data)


def _table(data: dict[str, Any]) -> Table:
    lists = {name: tuple(value) for name, value in data.items() if isinstance(value, list)}
    return Table(**{**data, **lists})


class TableSource(DataSource):
    """Spark's side of it; takes the options `READING`, as text, and `schema`."""

    @classmethod
    def name(cls) -> str:
        return "headrace_postgresql"

    def schema(self) -> str:
        return self.options["schema"]

    def simpleStreamReader(self, schema: object) -> SimpleDataSourceStreamReader:  # noqa: ARG002, N802
        return TableStream(Reading.from_json(self.options[READING]))


class TableStream(SimpleDataSourceStreamReader):
    """Reads on from an offset for as long as its query runs."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._kept = _Kept(store_of(reading.kept) if reading.kept is not None else None)
        self._reader: TableReader | None = None
        self._committed: Offset | None = None

    def initialOffset(self) -> Offset:  # noqa: N802
        with carrying_errors():
            setting = self._reading
            return self._offset(
                reader.begin(
                    setting.store, setting.database, setting.slot, setting.tables, rows=setting.with_rows
                )
            )

    def read(self, start: Offset) -> tuple[Iterator[pa.RecordBatch], Offset]:
        with carrying_errors():
            before = self._progress(start)
            reading = self._at(before)
            changes = reading.read(at_most=self._reading.per_read, wait_s=_WAIT_S)
            after = reading.progress
            if after == before:
                # Spark reports the end of a batch only at the start of the next batch.
                if start != self._committed:
                    self.commit(start)
                return iter([]), start
            batch = rows.batch(self._reading.layout, changes, before.count)
            if not before.is_whole:
                self._kept.keep(before, after, batch)
            return iter([batch] if changes else []), self._offset(after)

    def readBetweenOffsets(self, start: Offset, end: Offset) -> Iterator[pa.RecordBatch]:  # noqa: N802
        with carrying_errors():
            progress, last = self._progress(start), self._progress(end)
            while not progress.is_whole and progress != last:
                progress, batch = self._kept.again(progress)
                yield batch
            if progress == last:
                return
            with self._open(progress) as reading:
                for changes in reading.read_to(last):
                    yield rows.batch(self._reading.layout, changes, progress.count)
                    progress = reading.progress

    def commit(self, end: Offset) -> None:
        with carrying_errors():
            self._committed = end
            progress = self._progress(end)
            self._kept.forget(progress)
            if self._reader is not None:
                self._reader.confirm(progress)

    def stop(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def _at(self, progress: Progress) -> TableReader:
        if self._reader is not None and self._reader.progress != progress:
            self._reader.close()
            self._reader = None
        if self._reader is None:
            self._reader = self._open(progress)
        return self._reader

    def _open(self, progress: Progress) -> TableReader:
        setting = self._reading
        return TableReader(setting.store, setting.database, setting.slot, setting.tables, progress)

    def _offset(self, progress: Progress) -> Offset:
        return {self._reading.layout.entity: {"0": json.dumps(progress.to_json())}}

    def _progress(self, offset: Offset) -> Progress:
        return Progress.from_json(json.loads(offset[self._reading.layout.entity]["0"]))


class _Kept:
    """Batches of rows in files, by the progress before them."""

    def __init__(self, store: CheckpointStore | None) -> None:
        self._store = store
        self._is_empty = False

    def keep(self, before: Progress, after: Progress, batch: pa.RecordBatch) -> None:
        """Return when it would survive this machine's end, or its crash; what is there of the same progress was never Spark's."""
        if self._store is None:
            return
        schema = batch.schema.with_metadata({_PROGRESS: json.dumps(after.to_json()).encode()})
        content = pa.BufferOutputStream()
        with pa.ipc.new_stream(content, schema) as stream:
            stream.write_batch(batch.replace_schema_metadata(schema.metadata))
        self._store.write(_name(before), content.getvalue().to_pybytes())
        self._is_empty = False

    def again(self, before: Progress) -> tuple[Progress, pa.RecordBatch]:
        """Return the batch after a progress, and the progress after it."""
        content = self._store.read(_name(before)) if self._store is not None else None
        if content is None:
            raise FileNotFoundError("rows that were not kept are requested again")
        with pa.ipc.open_stream(content) as stream:
            after = json.loads(stream.schema.metadata[_PROGRESS])
            return Progress.from_json(after), stream.read_next_batch().replace_schema_metadata(None)

    def forget(self, done: Progress) -> None:
        """Forget the batches before a progress."""
        # Every batch comes here, and after the tables' rows there is nothing to look for.
        if self._store is None or self._is_empty:
            return
        if done.is_whole:
            self._store.remove()
            self._is_empty = True
            return
        for name in self._store.names(""):
            if int(name.partition("-")[0]) < done.count:
                self._store.delete(name)


def _name(before: Progress) -> str:
    digest = hashlib.sha256(json.dumps(before.to_json()).encode()).hexdigest()[:16]
    return f"{before.count}-{digest}"
