"""Avro's object container files: a header with the schema of the records, and blocks of them, each compressed by itself.

Source: Avro specification 1.12. What is in a block the JVM extension reads (`AvroFiles`).

By hand, since users' files are hostile: fastavro's `block_reader` unpacks a block to whatever it holds, with no limit to give it, skips
Snappy's checksum, and needs a package more for each of Snappy and Zstandard.
"""

from __future__ import annotations

import bz2
import io
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from headrace.core.wording import counted

MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_BLOCK_MAX = 64 << 20
"""Of a block, compressed or not; writers end theirs at some ten kilobytes."""
_RECORDS_MAX = 10_000_000
_META_MAX = 1000


@dataclass(frozen=True)
class Header:
    """Header of a file: its schema as JSON text, the compression of its blocks, and the mark after each."""

    schema: str
    codec: str
    sync: bytes


@dataclass(frozen=True)
class Block:
    """The bytes of some records, how many they are, and how many stand before them in the file."""

    data: bytes
    count: int
    first: int


def header(source: io.BufferedReader) -> Header:
    """Raises ValueError for a file that is none of Avro's, or is compressed in a way that is not known."""
    if source.read(len(MAGIC)) != MAGIC:
        raise ValueError("it is not an Avro file")
    metadata: dict[str, bytes] = {}
    while count := _long(source):
        if count < 0:
            count, _ = -count, _long(source)
        if count + len(metadata) > _META_MAX:
            raise ValueError(f"its header contains more than {_META_MAX} entries")
        for _ in range(count):
            name = _sized(source).decode(errors="replace")
            metadata[name] = _sized(source)
    codec = metadata.get("avro.codec", b"null").decode(errors="replace")
    if codec not in _CODECS:
        raise ValueError(f"its blocks are compressed by {codec!r}, and not by {', '.join(_CODECS)}")
    if "avro.schema" not in metadata:
        raise ValueError("its header has no schema")
    return Header(metadata["avro.schema"].decode(errors="replace"), codec, _exactly(source, _SYNC_BYTES))


def blocks(source: io.BufferedReader, file_header: Header) -> Iterator[Block]:
    """Yield the blocks behind the header, decompressed. Raises ValueError for a malformed block."""
    first = 0
    while source.peek(1):
        count = _long(source)
        if not 0 <= count <= _RECORDS_MAX:
            raise ValueError(f"a block declares {counted(count, 'record')}")
        packed = _sized(source)
        if _exactly(source, _SYNC_BYTES) != file_header.sync:
            raise ValueError("a block does not end at its declared size")
        if count:
            yield Block(_unpacked(file_header.codec, packed), count, first)
        first += count


def _unpacked(codec: str, packed: bytes) -> bytes:
    try:
        data = _CODECS[codec](packed)
    except (OSError, zlib.error, pa.ArrowInvalid) as error:
        raise ValueError(f"a block is not compressed by {codec} ({error})") from None
    if len(data) > _BLOCK_MAX:
        raise ValueError(f"a block is larger than {_BLOCK_MAX >> 20} MiB")
    return data


def _deflate(packed: bytes) -> bytes:
    return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, _BLOCK_MAX + 1)


def _bzip2(packed: bytes) -> bytes:
    return bz2.BZ2Decompressor().decompress(packed, _BLOCK_MAX + 1)


def _zstandard(packed: bytes) -> bytes:
    data: bytes = pa.CompressedInputStream(pa.BufferReader(packed), "zstd").read(_BLOCK_MAX + 1)
    return data


def _snappy(packed: bytes) -> bytes:
    """Decompress a block; the checksum of its content follows it."""
    body, checksum = packed[:-4], packed[-4:]
    size, shift = 0, 0
    for byte in body[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > _BLOCK_MAX:
        raise ValueError(f"a block is larger than {_BLOCK_MAX >> 20} MiB")
    data: bytes = pa.decompress(body, decompressed_size=size, codec="snappy", asbytes=True)
    if zlib.crc32(data).to_bytes(4, "big") != checksum:
        raise ValueError("the checksum of a block does not match")
    return data


_CODECS: Mapping[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": _bzip2,
}


def _long(source: io.BufferedReader) -> int:
    number = shift = 0
    while True:
        (byte,) = _exactly(source, 1)
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1)
        shift += 7
        if shift > 63:
            raise ValueError("a number is longer than 64 bits")


def _sized(source: io.BufferedReader) -> bytes:
    size = _long(source)
    if not 0 <= size <= _BLOCK_MAX:
        raise ValueError(f"a block, or a part of the header, declares {size} bytes")
    return _exactly(source, size)


def _exactly(source: io.BufferedReader, size: int) -> bytes:
    data = source.read(size)
    if len(data) < size:
        raise ValueError("it ends within a block")
    return data
