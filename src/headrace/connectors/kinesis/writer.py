"""Writer of records: requests in a few parallel lanes, all records of a key in one lane, with retries of throttled records."""

from __future__ import annotations

import random
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from botocore.exceptions import ClientError

from headrace.connectors.kinesis.failures import is_throttled
from headrace.core.errors import ExternalError
from headrace.core.sqlstate import SqlState
from headrace.core.wording import counted

_LANES = 2
# A request's limits. It has room for some more bytes than these.
_RECORDS, _BYTES = 500, 5_000_000
_TIMEOUT_S = 120.0
_BACKOFF_S, _BACKOFF_MAX_S = 0.1, 5.0

Entry = Mapping[str, Any]
"""As PutRecords takes it: PartitionKey, Data."""


class StreamWriter:
    """Puts records into the stream of an `address`; a context manager. Its client needs a connection for each of 2 lanes."""

    def __init__(self, client: Any, address: Mapping[str, str], *, timeout_s: float = _TIMEOUT_S) -> None:
        self._client = client
        self._address = address
        self._timeout_s = timeout_s
        self._lanes = ThreadPoolExecutor(_LANES, thread_name_prefix="kinesis-put")

    def __enter__(self) -> StreamWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._lanes.shutdown()

    def put(self, entries: Sequence[Entry]) -> None:
        """Return when the stream has all records. Records of a key are sent in order, after those of the last request were accepted.

        Raises botocore's errors; ExternalError 57015 if records are refused for longer than the timeout.
        """
        count = max(1, min(_LANES, len(entries) // _RECORDS))
        lanes: list[list[Entry]] = [[] for _ in range(count)]
        for entry in entries:
            lanes[zlib.crc32(entry["PartitionKey"].encode()) % count].append(entry)
        for _ in self._lanes.map(self._put_in_turn, lanes):
            pass

    def _put_in_turn(self, entries: Iterable[Entry]) -> None:
        for request in _requests(entries):
            self._put(request)

    def _put(self, entries: list[Entry]) -> None:
        deadline = time.monotonic() + self._timeout_s
        pause = _BACKOFF_S
        while True:
            entries, reason = self._refused(entries)
            if not entries:
                return
            if time.monotonic() > deadline:
                raise ExternalError(
                    SqlState.REMOTE_UNAVAILABLE,
                    f"Kinesis did not accept {counted(len(entries), 'record')} within {self._timeout_s:.0f} s: {reason}",
                    hint="A continuous query retries automatically. More shards accept more records.",
                )
            time.sleep(random.uniform(pause / 2, pause))  # noqa: S311 - lanes that were refused together part
            pause = min(2 * pause, _BACKOFF_MAX_S)

    def _refused(self, entries: list[Entry]) -> tuple[list[Entry], str]:
        """Send a request; return the records that were not accepted, and the reason."""
        try:
            answer = self._client.put_records(**self._address, Records=entries)
        except ClientError as error:
            if not is_throttled(error):
                raise
            return entries, str(error.response["Error"]["Code"])
        if not answer["FailedRecordCount"]:
            return [], ""
        results = zip(entries, answer["Records"], strict=True)
        refused = [(entry, result["ErrorCode"]) for entry, result in results if result.get("ErrorCode")]
        return [entry for entry, _ in refused], refused[0][1]


def _requests(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    request: list[Entry] = []
    size = 0
    for entry in entries:
        length = len(entry["PartitionKey"].encode()) + len(entry["Data"])
        if request and (len(request) == _RECORDS or size + length > _BYTES):
            yield request
            request, size = [], 0
        request.append(entry)
        size += length
    if request:
        yield request
