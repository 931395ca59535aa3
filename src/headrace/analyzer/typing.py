"""Combination of types: arithmetic, comparison, common types, casts and assignment.

The rules follow the SQL standard and Flink, which the dialect's users know; decimal precision follows the rules
that Spark (and SQL Server, and Hive) use, so that what we declare is what the engine computes.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    INTEGRAL,
    INTERVAL,
    NULL,
    SMALLINT,
    TIMESTAMP,
    TINYINT,
    VARCHAR,
    Array,
    DataType,
    Decimal,
    Map,
    Struct,
    Timestamp,
    Varchar,
    is_numeric,
)

DECIMAL_PRECISION_MAX = 38
DECIMAL_SCALE_KEPT = 6
_DIGITS: dict[DataType, int] = {TINYINT: 3, SMALLINT: 5, INTEGER: 10, BIGINT: 20}
_EXACT_DIGITS = {BOOLEAN: 1, **_DIGITS, BIGINT: 19}
_FLOATING_DIGITS = {FLOAT: 6, DOUBLE: 15}
"""Decimal digits that a value keeps: two numbers of so many digits are never rounded to the same one."""


def is_text(kind: DataType) -> bool:
    """True for VARCHAR of any length."""
    return isinstance(kind, Varchar)


def is_temporal(kind: DataType) -> bool:
    """True for DATE and both TIMESTAMP kinds."""
    return kind == DATE or isinstance(kind, Timestamp)


def as_decimal(kind: DataType) -> Decimal:
    """Return the DECIMAL that holds every value of an integral type; a DECIMAL is itself."""
    return kind if isinstance(kind, Decimal) else Decimal(_DIGITS[kind], 0)


def bounded(precision: int, scale: int) -> Decimal:
    """Return a DECIMAL cut to 38 digits: the integral digits are kept, and at least six of the scale."""
    if precision <= DECIMAL_PRECISION_MAX:
        return Decimal(precision, scale)
    integral = precision - scale
    scale_left = max(DECIMAL_PRECISION_MAX - integral, min(scale, DECIMAL_SCALE_KEPT))
    return Decimal(DECIMAL_PRECISION_MAX, scale_left)


def common(kinds: Sequence[DataType]) -> DataType | None:
    """Return the type that all of `kinds` convert to without loss (CASE, COALESCE, IN, UNION); None when there is none."""
    known = [kind for kind in kinds if kind != NULL]
    if not known:
        return NULL
    result = known[0]
    for kind in known[1:]:
        combined = _common_pair(result, kind)
        if combined is None:
            return None
        result = combined
    return result


def _common_pair(left: DataType, right: DataType) -> DataType | None:
    if left == right:
        return left
    if is_numeric(left) and is_numeric(right):
        return _common_number(left, right)
    if isinstance(left, Varchar) and isinstance(right, Varchar):
        if left.length is None or right.length is None:
            return VARCHAR
        return Varchar(max(left.length, right.length))
    if isinstance(left, Timestamp) and isinstance(right, Timestamp):
        return Timestamp(max(left.precision, right.precision), left.local and right.local)
    if is_temporal(left) and is_temporal(right):
        return left if isinstance(left, Timestamp) else right
    if isinstance(left, Array) and isinstance(right, Array):
        element = common([left.element, right.element])
        return Array(element) if element is not None else None
    if isinstance(left, Map) and isinstance(right, Map):
        key, value = common([left.key, right.key]), common([left.value, right.value])
        return Map(key, value) if key is not None and value is not None else None
    return None


def _common_number(left: DataType, right: DataType) -> DataType:
    if DOUBLE in (left, right) or FLOAT in (left, right):
        return FLOAT if left == right == FLOAT else DOUBLE
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        first, second = as_decimal(left), as_decimal(right)
        scale = max(first.scale, second.scale)
        return bounded(max(first.precision - first.scale, second.precision - second.scale) + scale, scale)
    return max(left, right, key=INTEGRAL.index)


def arithmetic(operator: str, left: DataType, right: DataType) -> DataType | None:
    """Return the type of `left operator right`, or None when the operator is not defined for them.

    Integral division truncates, as in Flink. DATE and TIMESTAMP take an INTERVAL on the right of + and −.
    """
    if operator in "+-" and is_temporal(left) and right == INTERVAL:
        return moved(left)
    if operator == "+" and left == INTERVAL and is_temporal(right):
        return moved(right)
    left, right = (right if left == NULL else left), (left if right == NULL else right)
    if left == NULL:
        return NULL
    if not (is_numeric(left) and is_numeric(right)):
        return None
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        if DOUBLE in (left, right) or FLOAT in (left, right):
            return DOUBLE
        return bounded(*_digits(operator, as_decimal(left), as_decimal(right)))
    return _common_number(left, right)


def moved(kind: DataType) -> DataType:
    """Return the type of a DATE or TIMESTAMP plus milliseconds, for which it has at least three digits of a second."""
    return Timestamp(max(3, kind.precision), kind.local) if isinstance(kind, Timestamp) else TIMESTAMP


def operands(kinds: Sequence[DataType]) -> Sequence[DataType]:
    """Return the types at which numbers meet in arithmetic: both DOUBLE (or FLOAT), each its DECIMAL, or both the wider whole number."""
    if not all(kind == NULL or is_numeric(kind) for kind in kinds):
        return kinds
    numbers = [kind for kind in kinds if kind != NULL]
    if any(isinstance(kind, Decimal) for kind in numbers) and not has_approximate(numbers):
        return [as_decimal(numbers[0] if kind == NULL else kind) for kind in kinds]
    kind = common(numbers)
    return kinds if kind is None else [kind] * len(kinds)


def compared(kinds: Sequence[DataType]) -> Sequence[DataType]:
    """Return the types at which values are compared: a FLOAT or DOUBLE meets other numbers as a DOUBLE, all else as it is."""
    if not has_approximate(kinds):
        return kinds
    kind = common(kinds)
    return kinds if kind is None else [kind] * len(kinds)


def has_approximate(kinds: Sequence[DataType]) -> bool:
    """True when a FLOAT or DOUBLE is among them."""
    return DOUBLE in kinds or FLOAT in kinds


def exact(operator: str, kinds: Sequence[DataType]) -> bool:
    """True when two DECIMALs' sum, difference, product or remainder has at most 38 digits: nothing of it is ever rounded."""
    return _digits(operator, as_decimal(kinds[0]), as_decimal(kinds[1]))[0] <= DECIMAL_PRECISION_MAX


def _digits(operator: str, left: Decimal, right: Decimal) -> tuple[int, int]:
    """Return precision and scale of a result, not cut to 38 digits."""
    if operator == "*":
        return left.precision + right.precision + 1, left.scale + right.scale
    if operator == "/":
        scale = max(DECIMAL_SCALE_KEPT, left.scale + right.precision + 1)
        return left.precision - left.scale + right.scale + scale, scale
    scale = max(left.scale, right.scale)
    integral = (left.precision - left.scale, right.precision - right.scale)
    if operator == "%":
        return min(integral) + scale, scale
    return max(integral) + scale + 1, scale


def comparable(left: DataType, right: DataType) -> bool:
    """True when `=` and `<` are defined between the types (text literals against dates: see the binder)."""
    if isinstance(left, Map) or isinstance(right, Map):
        return False
    return common([left, right]) is not None or _same_struct(left, right)


def _same_struct(left: DataType, right: DataType) -> bool:
    return isinstance(left, Struct) and isinstance(right, Struct) and len(left.fields) == len(right.fields)


def castable(source: DataType, target: DataType) -> bool:
    """True when CAST is defined between the types. A cast may still fail for a value."""
    if source in (NULL, target) or is_text(target):
        return source != INTERVAL
    if is_text(source):
        return not isinstance(target, Map | Struct | Array)
    if is_numeric(source):
        return is_numeric(target) or (target == BOOLEAN and source in INTEGRAL)
    if source == BOOLEAN:
        return is_numeric(target)
    if is_temporal(source):
        return is_temporal(target)
    if isinstance(source, Array) and isinstance(target, Array):
        return castable(source.element, target.element)
    if isinstance(source, Map) and isinstance(target, Map):
        return castable(source.key, target.key) and castable(source.value, target.value)
    if isinstance(source, Struct) and isinstance(target, Struct):
        pairs = zip(source.fields, target.fields, strict=False)
        return len(source.fields) == len(target.fields) and all(castable(a[1], b[1]) for a, b in pairs)
    return source == BYTES and target == BYTES


def assignable(source: DataType, target: DataType) -> bool:
    """True when a value may be stored in a column of `target` without an explicit CAST: nothing can be lost."""
    if source in (NULL, target):
        return True
    if isinstance(source, Varchar) and isinstance(target, Varchar):
        return target.length is None or (source.length is not None and source.length <= target.length)
    if isinstance(source, Timestamp) and isinstance(target, Timestamp):
        return True
    if source == DATE and isinstance(target, Timestamp):
        return True
    if is_numeric(source) and is_numeric(target):
        if isinstance(target, Decimal) and source not in (FLOAT, DOUBLE):
            exact = as_decimal(source)
            fits = target.precision - target.scale >= exact.precision - exact.scale
            return fits and target.scale >= exact.scale
        return _common_number(source, target) == target
    if isinstance(source, Array) and isinstance(target, Array):
        return assignable(source.element, target.element)
    if isinstance(source, Map) and isinstance(target, Map):
        return assignable(source.key, target.key) and assignable(source.value, target.value)
    if isinstance(source, Struct) and isinstance(target, Struct):
        pairs = zip(source.fields, target.fields, strict=False)
        return len(source.fields) == len(target.fields) and all(
            a[0] == b[0] and assignable(a[1], b[1]) for a, b in pairs
        )
    return False


def is_injective_cast(source: DataType, target: DataType) -> bool:
    """True when a CAST takes every two different values to different ones, so that the CAST of a key is a key."""
    if source == target or (source, target) == (FLOAT, DOUBLE):
        return True
    if target == VARCHAR:
        return isinstance(source, Varchar | Decimal | Timestamp) or source in (*_EXACT_DIGITS, DATE)
    match source, target:
        case Varchar(length=int(length)), Varchar(length=int(limit)):
            return length <= limit
        case Timestamp(), Timestamp():
            return source.digits <= target.digits
        case Array(), Array():
            return is_injective_cast(source.element, target.element)
        case Struct(), Struct():
            pairs = zip(source.fields, target.fields, strict=False)
            return len(source.fields) == len(target.fields) and all(
                is_injective_cast(a[1], b[1]) for a, b in pairs
            )
    if isinstance(source, Decimal) or source in _EXACT_DIGITS:
        return is_numeric(target) and _keeps_digits(source, target)
    return source == DATE and isinstance(target, Timestamp)


def _keeps_digits(source: DataType, target: DataType) -> bool:
    """True when `target` holds each number of an exact type as it is."""
    digits, scale = (
        (source.precision, source.scale) if isinstance(source, Decimal) else (_EXACT_DIGITS[source], 0)
    )
    if target in _FLOATING_DIGITS:
        return digits <= _FLOATING_DIGITS[target]
    held, fraction = (
        (target.precision, target.scale) if isinstance(target, Decimal) else (_EXACT_DIGITS[target], 0)
    )
    return fraction >= scale and held - fraction >= digits - scale
