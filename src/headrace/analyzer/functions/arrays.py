"""Functions on arrays and maps."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.analyzer.functions.signature import Function, alike, function
from headrace.analyzer.typing import common
from headrace.core.internal_columns import PREFIX
from headrace.core.types import (
    BIGINT,
    BOOLEAN,
    INTEGER,
    VARCHAR,
    Array,
    DataType,
    Map,
    Struct,
)

_ITEM, _KEY, _VALUE = f"{PREFIX}item", f"{PREFIX}map_key", f"{PREFIX}map_value"
"""Variables of lambda functions, whose names no column has."""


def _first(kinds: Sequence[DataType]) -> DataType:
    return kinds[0]


def _array_element(kinds: Sequence[DataType]) -> DataType | None:
    return kinds[0].element if isinstance(kinds[0], Array) else None


def _array_of(kinds: Sequence[DataType]) -> DataType | None:
    element = common(kinds)
    return None if element is None else Array(element)


def _arrays(kinds: Sequence[DataType]) -> DataType | None:
    kind = common(kinds)
    return kind if isinstance(kind, Array) else None


def _with_element(kinds: Sequence[DataType]) -> DataType | None:
    array, added = kinds
    element = common([array.element, added]) if isinstance(array, Array) else None
    return None if element is None else Array(element)


def _array_and_element(kinds: Sequence[DataType]) -> Sequence[DataType]:
    kind = _with_element(kinds)
    return [kind, kind.element] if isinstance(kind, Array) else kinds


def _sortable(kinds: Sequence[DataType]) -> DataType | None:
    kind = kinds[0]
    return kind if isinstance(kind, Array) and not isinstance(kind.element, Map) else None


def _map_of(kinds: Sequence[DataType]) -> DataType | None:
    key, value = common(kinds[0::2]), common(kinds[1::2])
    return None if key is None or value is None or len(kinds) % 2 else Map(key, value)


def _maps(kinds: Sequence[DataType]) -> DataType | None:
    kind = common(kinds)
    return kind if isinstance(kind, Map) else None


def _map_of_arrays(kinds: Sequence[DataType]) -> DataType | None:
    keys, values = kinds
    return (
        Map(keys.element, values.element) if isinstance(keys, Array) and isinstance(values, Array) else None
    )


def _map_keys(kinds: Sequence[DataType]) -> DataType | None:
    return Array(kinds[0].key) if isinstance(kinds[0], Map) else None


def _map_values(kinds: Sequence[DataType]) -> DataType | None:
    return Array(kinds[0].value) if isinstance(kinds[0], Map) else None


def _map_entries(kinds: Sequence[DataType]) -> DataType | None:
    kind = kinds[0]
    return Array(Struct((("key", kind.key), ("value", kind.value)))) if isinstance(kind, Map) else None


def _slice(arguments: Sequence[str]) -> str:
    """Return Spark's slice, which takes a length and refuses a start outside of the array."""
    array, size = arguments[0], f"CAST(array_size({arguments[0]}) AS BIGINT)"
    start, end = (_place(offset, size) for offset in (*arguments[1:], size)[:2])
    first, last = f"least(greatest({start}, 1L), {size} + 1L)", f"greatest(least({end}, {size}), 0L)"
    present = " AND ".join(f"{offset} IS NOT NULL" for offset in arguments[1:])
    taken = f"slice({array}, CAST({first} AS INT), CAST(greatest({last} - {first} + 1L, 0L) AS INT))"
    return f"CASE WHEN {present} THEN {taken} END"


def _place(offset: str, size: str) -> str:
    if offset == size:
        return size
    return f"CASE WHEN {offset} < 0 THEN {size} + {offset} + 1L WHEN {offset} = 0 THEN 1L ELSE {offset} END"


def _sort(arguments: Sequence[str]) -> str:
    array, ascending = arguments[0], arguments[1] if len(arguments) > 1 else "true"
    if len(arguments) < 3:
        return _sorted(array, ascending)
    nulls_first = arguments[2]
    present, absent = (f"filter({array}, {_ITEM} -> {_ITEM} IS {word}NULL)" for word in ("NOT ", ""))
    ordered = _sorted(present, ascending)
    return (
        f"CASE WHEN {nulls_first} THEN concat({absent}, {ordered}) "
        f"WHEN NOT {nulls_first} THEN concat({ordered}, {absent}) END"
    )


def _sorted(array: str, ascending: str) -> str:
    """Return Spark's sort_array, which requires a constant order; its NULLs are the smallest."""
    orders = (f"THEN sort_array({array}, {order})" for order in ("true", "false"))
    return "CASE WHEN {0} {1} WHEN NOT {0} {2} END".format(ascending, *orders)


def _union(arguments: Sequence[str]) -> str:
    """Return Spark's map_concat without the keys that a later map has too, which it refuses."""
    united = arguments[0]
    for later in arguments[1:]:
        others = f"map_filter({united}, ({_KEY}, {_VALUE}) -> NOT map_contains_key({later}, {_KEY}))"
        united = f"map_concat({others}, {later})"
    return united


COLLECTIONS: tuple[Function, ...] = (
    function("CARDINALITY", "array or map", INTEGER, "Number of elements.", spark="cardinality({0})"),
    function(
        "ELEMENT",
        "array",
        _array_element,
        "The only element of an array; NULL of an empty one.",
        spark="try_element_at({0}, 1)",
    ),
    function(
        "ARRAY",
        "any, ...",
        _array_of,
        "The arguments as an array.",
        never_null=True,
        duckdb="list_value({*})",
    ),
    function("MAP", "any, ...", _map_of, "Keys and values, in turn, as a map.", never_null=True),
    function(
        "ARRAY_APPEND",
        "array, any",
        _with_element,
        "The array with an element, which may be NULL, after its last.",
        operands=_array_and_element,
    ),
    function(
        "ARRAY_PREPEND",
        "array, any",
        _with_element,
        "The array with an element, which may be NULL, before its first.",
        operands=_array_and_element,
    ),
    function(
        "ARRAY_CONTAINS",
        "array, any",
        BOOLEAN,
        "True if the array contains the element, which may be NULL.",
        # array_contains is NULL of a NULL, and of an array that contains a NULL.
        spark=f"CASE WHEN {{1}} IS NULL THEN exists({{0}}, {_ITEM} -> {_ITEM} IS NULL) "
        "WHEN {0} IS NOT NULL THEN coalesce(array_contains({0}, {1}), false) END",
        operands=_array_and_element,
    ),
    function("ARRAY_DISTINCT", "array", _first, "Each distinct element once."),
    function(
        "ARRAY_JOIN",
        "array, text, [text]",
        VARCHAR,
        "The elements as one text, with a delimiter; the third argument replaces NULLs.",
    ),
    function(
        "ARRAY_POSITION", "array, any", BIGINT, "1-based position of an element; 0 if it does not occur."
    ),
    function("ARRAY_REMOVE", "array, any", _first, "Without the elements equal to the second argument."),
    function("ARRAY_REVERSE", "array", _first, "In reverse order.", spark="reverse({0})"),
    function(
        "ARRAY_SLICE",
        "array, integer, [integer]",
        _first,
        "The elements from a 1-based position to another (the last), both included; a negative position "
        "counts from the end, 0 is the first.",
        spark=_slice,
    ),
    function(
        "ARRAY_SORT",
        "array, [boolean], [boolean]",
        _sortable,
        "In ascending order, or descending if the second argument is false. NULLs are the smallest "
        "elements, unless the third argument puts them first (true) or last (false).",
        spark=_sort,
    ),
    function("ARRAY_UNION", "array, array", _arrays, "The distinct elements of both.", operands=alike),
    function(
        "ARRAY_CONCAT",
        "array, ...",
        _arrays,
        "The arrays, one after the other.",
        spark="concat({*})",
        operands=alike,
    ),
    function(
        "ARRAY_EXCEPT",
        "array, array",
        _arrays,
        "The distinct elements of the first array that the second does not contain.",
        operands=alike,
    ),
    function(
        "ARRAY_INTERSECT",
        "array, array",
        _arrays,
        "The distinct elements of the first array that the second contains too.",
        operands=alike,
    ),
    function("ARRAY_MAX", "array", _array_element, "The largest element."),
    function("ARRAY_MIN", "array", _array_element, "The smallest element."),
    function("MAP_KEYS", "map", _map_keys, "The keys of a map."),
    function("MAP_VALUES", "map", _map_values, "The values of a map."),
    function("MAP_ENTRIES", "map", _map_entries, "The entries of a map, as STRUCTs of key and value."),
    function(
        "MAP_FROM_ARRAYS",
        "array, array",
        _map_of_arrays,
        "A map of the keys in the first array and the values in the second; both have the same length.",
        spark="IF(array_size({0}) <> array_size({1}), "
        "raise_error('[22000] the arrays of MAP_FROM_ARRAYS differ in length'), map_from_arrays({*}))",
    ),
    function(
        "MAP_UNION",
        "map, ...",
        _maps,
        "The entries of all maps; a later map's value of a key replaces an earlier one's.",
        spark=_union,
        operands=alike,
    ),
)
