"""Values of a Parquet file as a declared type: each as it is, or an error. Arrow's own cast gives other values in some cases."""

from __future__ import annotations

import pyarrow as pa
from pyarrow import compute, types


def cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert values to a type of `arrow_type`, lists, maps and structs through all levels.

    Digits behind a microsecond are lost, and a DOUBLE as FLOAT keeps a FLOAT's digits. Raises NotImplementedError for types between
    which no conversion keeps the values, ValueError for a value that does not fit.
    """
    source = values.type
    if source == kind:
        return values
    if types.is_large_list(source) or types.is_fixed_size_list(source):
        return cast(compute.cast(values, pa.list_(source.value_type)), kind)
    if types.is_list(source) and types.is_list(kind):
        offsets, elements = _elements(values)
        return pa.ListArray.from_arrays(offsets, cast(elements, kind.value_type), mask=values.is_null())
    if types.is_map(source) and types.is_map(kind):
        offsets, entries = _elements(values)
        keys, items = cast(entries.field(0), kind.key_type), cast(entries.field(1), kind.item_type)
        return pa.MapArray.from_arrays(offsets, keys, items, mask=values.is_null())
    if types.is_struct(source) and types.is_struct(kind):
        present = dict(zip(source.names, values.flatten(), strict=True))
        fields = [
            cast(present[field.name], field.type)
            if field.name in present
            else pa.nulls(len(values), field.type)
            for field in kind
        ]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=values.is_null())
    return _primitives(values, kind)


def _elements(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the offsets of a list or a map, which begin at 0 even if the array is a slice, and what they count."""
    first, last = values.offsets[0].as_py(), values.offsets[-1].as_py()
    return compute.subtract(values.offsets, first), values.values.slice(first, last - first)


def _primitives(values: pa.Array, kind: pa.DataType) -> pa.Array:
    source = values.type
    if isinstance(values, pa.ExtensionArray):
        if isinstance(values, pa.UuidArray) and types.is_string(kind):
            return pa.array([None if value is None else str(value) for value in values.to_pylist()], kind)
        return cast(values.storage, kind)
    if types.is_dictionary(source):
        return cast(values.dictionary_decode(), kind)
    # Arrow takes a number for a count of the target's unit, whatever unit was meant, and a time for a count of its own.
    if _is_number(source) and (types.is_temporal(kind) or types.is_boolean(kind)):
        raise NotImplementedError
    if types.is_temporal(source) and _is_number(kind):
        raise NotImplementedError
    if types.is_timestamp(kind) and types.is_string(source):
        values = compute.cast(values, pa.timestamp("us"))
    result = compute.cast(
        values, options=compute.CastOptions(target_type=kind, allow_time_truncate=types.is_timestamp(kind))
    )
    changed = _changed(values, result)
    if changed is not None and compute.any(changed).as_py():
        raise ValueError(f"the value {values.filter(changed)[0]} would become {result.filter(changed)[0]}")
    return result


def _is_number(kind: pa.DataType) -> bool:
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _changed(values: pa.Array, result: pa.Array) -> pa.Array | None:
    """True for values that Arrow's cast changed without an error; None if it does not change any between these types."""
    source, kind = values.type, result.type
    if types.is_floating(kind) and types.is_floating(source):
        overflow = compute.xor(compute.is_inf(values), compute.is_inf(result))
        return compute.or_(overflow, compute.xor(compute.equal(values, 0), compute.equal(result, 0)))
    if types.is_floating(kind) and (types.is_string(source) or types.is_large_string(source)):
        written = compute.match_substring(values, "inf", ignore_case=True)
        return compute.and_(compute.is_inf(result), compute.invert(written))
    exact = {types.is_decimal(source), types.is_decimal(kind)} == {True, False}
    if (exact and (types.is_floating(source) or types.is_floating(kind))) or types.is_date(kind):
        back = compute.cast(result, source) if not types.is_string(source) else values
        return compute.not_equal(values, back)
    return None
