"""Records into which a producer has packed several, as AWS's Kinesis Producer Library (KPL) does. Its aggregation-format.md describes the
form: four bytes that say so, a message of Protobuf, and the message's MD5.

Those inside have a key of their own, and the sequence number of the whole: a reader stands before or behind all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

_MAGIC = b"\xf3\x89\x9a\xc2"
_DIGEST_BYTES = 16
_SCHEMA = """
name: "aggregation.proto" package: "kpl"
message_type {
  name: "AggregatedRecord"
  field { number: 1 name: "partition_key_table" label: LABEL_REPEATED type: TYPE_STRING }
  field { number: 3 name: "records" label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".kpl.Record" }
}
message_type {
  name: "Record"
  field { number: 1 name: "partition_key_index" label: LABEL_REQUIRED type: TYPE_UINT64 }
  field { number: 3 name: "data" label: LABEL_REQUIRED type: TYPE_BYTES }
}
"""
"""Without hash keys and tags, which say nothing to a reader."""

Record = Mapping[str, Any]
"""As GetRecords gives it: Data, PartitionKey, SequenceNumber, ApproximateArrivalTimestamp."""


def _message_class() -> Any:
    pool = DescriptorPool()
    file = text_format.Parse(_SCHEMA, FileDescriptorProto())
    return GetMessageClass(
        pool.AddSerializedFile(file.SerializeToString()).message_types_by_name["AggregatedRecord"]
    )


_AggregatedRecord = _message_class()


def unpacked(record: Record) -> list[Record]:
    """Return the records of an aggregated record in order; any other record itself."""
    data: bytes = record["Data"]
    message, digest = data[len(_MAGIC) : -_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if not data.startswith(_MAGIC) or hashlib.md5(message, usedforsecurity=False).digest() != digest:
        return [record]
    try:
        package = _AggregatedRecord.FromString(message)
        keys = list(package.partition_key_table)
        return [
            {**record, "PartitionKey": keys[one.partition_key_index], "Data": one.data}
            for one in package.records
        ]
    except (DecodeError, ValueError, IndexError):  # what begins and ends like one by chance
        return [record]
