"""The control-plane half of the generator store type. Its entities are the streams over it: a stream declares the rows."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Mapping

from headrace.connectors.base import PrintedRecord, PrintStart, RowSource, StoreDescriptor
from headrace.connectors.generator import options
from headrace.connectors.generator.rows import GeneratedRows, check
from headrace.core.names import EntityPath
from headrace.core.properties import PropertyReader
from headrace.core.resultset import cell
from headrace.core.schema import Schema
from headrace.core.types import BIGINT, DATE, INTEGER, VARCHAR, DataType, Decimal, Struct, Timestamp

METADATA = Struct((("entity", VARCHAR), ("split", INTEGER), ("offset", BIGINT)))
_AT_ONCE = 500
_POLL_S = 0.05


class GeneratorPrinter:
    """Printer of generated rows. `connectors.base` describes the contract of each method."""

    async def print_entity(
        self,
        store: Mapping[str, str],
        path: EntityPath,  # noqa: ARG002
        *,
        start: PrintStart,
    ) -> AsyncGenerator[PrintedRecord]:
        rows = GeneratedRows(start.columns, start.options, int(store[options.START.name]))
        start.refuse_missing(range(rows.splits))
        offsets = rows.starts(start.at, _now_ms())
        chosen = {
            split: offset
            for split, offset in offsets.items()
            if start.partitions is None or split in start.partitions
        }
        return _printed(rows, chosen)


async def _printed(rows: GeneratedRows, offsets: dict[int, int]) -> AsyncGenerator[PrintedRecord]:
    while True:
        ends = rows.end(_now_ms())
        for split, offset in offsets.items():
            end = min(ends[split], offset + _AT_ONCE)
            for record in await asyncio.to_thread(_records, rows, split, offset, end):
                yield record
            offsets[split] = max(offset, end)
        if all(offset >= ends[split] for split, offset in offsets.items()):
            await asyncio.sleep(_POLL_S)


def _records(rows: GeneratedRows, split: int, first: int, end: int) -> list[PrintedRecord]:
    """Return rows as JSON objects; a row that cannot be read is a text that is not JSON."""
    if end <= first:
        return []
    numbers = rows.numbers(split, first, end)
    times_us = rows.times_us(numbers)
    columns = [values.to_pylist() for values in rows.values(numbers, times_us)]
    bad = rows.bad(numbers)
    records = []
    for index, values in enumerate(zip(*columns, strict=True)):
        moment, offset = int(times_us[index]) // 1000, first + index
        row = {
            column.name: _shown(value, column.type)
            for column, value in zip(rows.columns, values, strict=True)
        }
        value = "a bad record" if bad[index] else json.dumps(row, ensure_ascii=False)
        metadata = f"split {split}, offset {offset}, timestamp {moment}"
        records.append(
            PrintedRecord(None, value, metadata, partition=split, offset=str(offset), timestamp_ms=moment)
        )
    return records


def _shown(value: object, kind: DataType) -> object:
    as_text = kind == DATE or isinstance(kind, Timestamp | Decimal) or isinstance(value, bytes)
    return cell(value, kind) if as_text else value


def _now_ms() -> int:
    return int(time.time() * 1000)


def _check(
    _store: Mapping[str, str], _path: EntityPath, schema: Schema, given: Mapping[str, str], _upsert: bool
) -> None:
    check(schema.columns, given)


def _path(_reader: PropertyReader, relation: str) -> EntityPath:
    return (relation,)


def _test(_store: Mapping[str, str]) -> None:
    """Do nothing: there is no system that could be silent."""


GENERATOR = StoreDescriptor(
    type="generator",
    label="Generator",
    properties=options.PROPERTIES,
    read=options.read_store,
    test=_test,
    path=_path,
    row_source=RowSource(
        metadata=METADATA,
        options=options.source_options,
        check=_check,
        changes=False,
        skips=True,
        seeks=True,
    ),
    printer=GeneratorPrinter(),
    print_positions=True,
    declared_entities=True,
    on_clusters="python",
    tested_unasked=True,
)
