"""Times as they are stored: microseconds since the epoch, so that SQLite and PostgreSQL agree."""

from __future__ import annotations

import datetime


def micros(moment: datetime.datetime) -> int:
    """Return a time as microseconds since the epoch."""
    return (moment - _EPOCH) // datetime.timedelta(microseconds=1)


def moment(value: int) -> datetime.datetime:
    """Return the inverse of `micros`."""
    return _EPOCH + datetime.timedelta(microseconds=value)


def present() -> int:
    """Return the present as `micros`."""
    return micros(datetime.datetime.now(datetime.UTC))


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
