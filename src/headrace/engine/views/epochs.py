"""The rows of an epoch, as a driver sends them."""

from __future__ import annotations

from typing import Any


def rows_of(payload: bytes) -> Any:
    """Return the `pyarrow.Table` of an Arrow IPC stream, without time zones: Spark's times are UTC whatever zone they carry."""
    import pyarrow

    table = pyarrow.ipc.open_stream(payload).read_all()
    schema = pyarrow.schema([field.with_type(_without_zone(field.type)) for field in table.schema])
    return table if schema.equals(table.schema) else table.cast(schema)


def _without_zone(kind: Any) -> Any:
    import pyarrow

    types = pyarrow.types
    if types.is_timestamp(kind) and kind.tz is not None:
        return pyarrow.timestamp(kind.unit)
    if types.is_struct(kind):
        return pyarrow.struct([field.with_type(_without_zone(field.type)) for field in kind])
    if types.is_list(kind):
        return pyarrow.list_(kind.value_field.with_type(_without_zone(kind.value_type)))
    if types.is_map(kind):
        return pyarrow.map_(
            kind.key_field.with_type(_without_zone(kind.key_type)),
            kind.item_field.with_type(_without_zone(kind.item_type)),
        )
    return kind
