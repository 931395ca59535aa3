"""The decoder, over messages that PostgreSQL 18 sent."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors.postgresql.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    Decoder,
    Delete,
    Insert,
    Relation,
    RelationColumn,
    Truncate,
    Update,
)

BEGIN = "42 00 00 00 00 03 9f a7 d8 00 03 03 de 71 db 6b ec 00 00 04 36"
COMMIT = "43 00 00 00 00 00 03 9f a7 d8 00 00 00 00 03 9f a8 08 00 03 03 de 71 db 6b ec"
TYPE = "59 00 00 40 11 70 75 62 6c 69 63 00 6d 6f 6f 64 00"
RELATION = (
    "52 00 00 40 13 70 75 62 6c 69 63 00 74 00 64 00 04 01 69 64 00 00 00 00 14 ff ff ff ff"
    " 00 6e 61 6d 65 00 00 00 00 19 ff ff ff ff 00 6d 00 00 00 40 11 ff ff ff ff 00 62 69 67 00 00 00 00 19 ff ff ff ff"
)
INSERT = "49 00 00 40 13 4e 00 04 74 00 00 00 01 31 74 00 00 00 02 c3 bc 6e 74 00 00 00 05 78 78 78 78 78"
UPDATE_OF_KEY = (
    "55 00 00 40 13 4b 00 04 74 00 00 00 01 31 6e 6e 6e 4e 00 04 74 00 00 00 01 32 74 00 00 00 02 c3 bc 6e"
    " 74 00 00 00 05 78 78 78 78 78"
)
UPDATE_WITHOUT_LARGE = (
    "55 00 00 40 13 4e 00 04 74 00 00 00 01 31 74 00 00 00 01 63 74 00 00 00 03 73 61 64 75"
)
DELETE = "44 00 00 40 13 4b 00 04 74 00 00 00 01 32 6e 6e 6e"
TRUNCATE = "54 00 00 00 01 00 00 00 40 13"
TABLE = Relation(
    0x4013,
    "public",
    "t",
    "d",
    (
        RelationColumn("id", 20, -1, True),
        RelationColumn("name", 25, -1, False),
        RelationColumn("m", 0x4011, -1, False),
        RelationColumn("big", 25, -1, False),
    ),
)


def decoder() -> Decoder:
    known = Decoder()
    assert known.decode(bytes.fromhex(RELATION)) == TABLE
    return known


@pytest.mark.parametrize(
    ("message", "meaning"),
    [
        (BEGIN, Begin(0x39FA7D8, 1_795_363_657_960_428, 0x436)),
        (COMMIT, Commit(0x39FA7D8, 0x39FA808, 1_795_363_657_960_428)),
        (TYPE, None),
        (INSERT, Insert(TABLE, ("1", "ü", None, "xxxxx"))),
        (UPDATE_OF_KEY, Update(TABLE, ("1", None, None, None), ("2", "ü", None, "xxxxx"))),
        (UPDATE_WITHOUT_LARGE, Update(TABLE, None, ("1", "c", "sad", UNCHANGED))),
        (DELETE, Delete(TABLE, ("2", None, None, None))),
        (TRUNCATE, Truncate((TABLE,))),
    ],
)
def test_a_message_is_read(message: str, meaning: object) -> None:
    assert decoder().decode(bytes.fromhex(message)) == meaning


@pytest.mark.parametrize(
    "message", [BEGIN, COMMIT, RELATION, INSERT, UPDATE_OF_KEY, UPDATE_WITHOUT_LARGE, DELETE, TRUNCATE]
)
def test_a_message_that_is_cut_short_is_an_error(message: str) -> None:
    whole = bytes.fromhex(message)
    for length in range(len(whole)):
        with pytest.raises(ValueError, match="message of pgoutput"):
            decoder().decode(whole[:length])


def test_a_change_of_an_undescribed_table_is_an_error() -> None:
    with pytest.raises(ValueError, match="not a whole message"):
        Decoder().decode(bytes.fromhex(INSERT))


@given(st.binary(max_size=80))
def test_bytes_that_are_no_message_are_no_other_error(data: bytes) -> None:
    for message in (data, data[:1] + bytes.fromhex(INSERT)[1:6] + data[1:]):
        with suppress(ValueError):
            decoder().decode(message)
