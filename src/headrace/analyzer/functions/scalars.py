"""Scalar functions on numbers, texts, collections, JSON and hashes; and the conditional ones.

Spark's spelling was chosen for the dialect's meaning, not for the same name: SPLIT_INDEX counts from 0 and gives NULL past
the end, LOG takes the base first, CONCAT_WS skips NULLs.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.analyzer.functions.operators import duckdb_arithmetic
from headrace.analyzer.functions.signature import (
    SAME,
    Function,
    PerType,
    Spelling,
    Template,
    alike,
    by_text_if_long,
    function,
    integer_places,
    text_function,
)
from headrace.analyzer.typing import arithmetic, common, has_approximate, operands
from headrace.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DOUBLE,
    FLOAT,
    INTEGER,
    INTEGRAL,
    NULL,
    TEXT_LENGTH_MAX,
    VARCHAR,
    Array,
    DataType,
    Decimal,
    Map,
    is_numeric,
)


def _first(kinds: Sequence[DataType]) -> DataType:
    return kinds[0]


def _rounded(kinds: Sequence[DataType]) -> DataType:
    """Return a type with one more digit before the point: 9.99 is rounded to 10.00."""
    kind = kinds[0]
    return Decimal(min(38, kind.precision + 1), kind.scale) if isinstance(kind, Decimal) else kind


def _doubles(kinds: Sequence[DataType]) -> Sequence[DataType]:
    return [DOUBLE] * len(kinds)


def _whole(kinds: Sequence[DataType]) -> DataType:
    kind = kinds[0]
    if isinstance(kind, Decimal):
        return Decimal(min(38, kind.precision - kind.scale + 1), 0)
    return kind if kind in (FLOAT, DOUBLE) else BIGINT


def _after_first(kinds: Sequence[DataType]) -> DataType | None:
    return common(kinds[1:])


def _double(name: str, doc: str, signature: str = "number", spark: str | None = None) -> Function:
    return function(name, signature, DOUBLE, doc, spark=spark, duckdb=SAME, operands=_doubles)


def _bounded(name: str, length: str) -> str:
    """Return Spark SQL of a function that fails for a text that is too long to be made: it would end the driver and all its queries."""
    refusal = f"{name} would return a text of more than {TEXT_LENGTH_MAX} characters"
    return f"IF({length} > {TEXT_LENGTH_MAX}, raise_error('{refusal}'), {name.lower()}({{*}}))"


def _sign(kinds: Sequence[DataType]) -> DataType:
    return Decimal(1, 0) if isinstance(kinds[0], Decimal) else kinds[0]


def _whole_spark(name: str) -> Template:
    """Return Spark's template. Spark returns a BIGINT for a DOUBLE; a DOUBLE beyond BIGINT has no fraction and is returned as it is."""

    def choose(kinds: Sequence[DataType], _result: DataType) -> Spelling:
        if not has_approximate(kinds):
            return f"CAST({name}({{0}}) AS {{type}})"
        return f"CASE WHEN abs({{0}}) < 4503599627370496 THEN CAST({name}({{0}}) AS {{type}}) ELSE {{0}} END"

    return PerType(choose)


def _whole_duckdb(name: str) -> Template:
    """Return DuckDB's template without a -0.0."""
    return PerType(
        lambda kinds, _: (
            f"({name}({{0}}) + 0)" if has_approximate(kinds) else f"CAST({name}({{0}}) AS {{type}})"
        )
    )


def _round_duckdb(kinds: Sequence[DataType], _result: DataType) -> Spelling:
    if not has_approximate(kinds):
        return "CAST(round({*}) AS {type})"
    places = "{1}" if len(kinds) > 1 else "0"
    return f"CAST(round_double({{0}}, {places}) AS {{type}})"


def _substring(arguments: Sequence[str]) -> str:
    place = f"CASE WHEN {arguments[1]} = 0 THEN 1 ELSE {arguments[1]} END"
    return f"substring({arguments[0]}, {', '.join([place, *map(_not_below_zero, arguments[2:])])})"


def _side(name: str) -> Template:
    return lambda arguments: f"{name}({arguments[0]}, {_not_below_zero(arguments[1])})"


def _not_below_zero(number: str) -> str:
    return f"CASE WHEN {number} < 0 THEN 0 ELSE {number} END"


def _remainder(kinds: Sequence[DataType]) -> DataType | None:
    return kinds[1] if set(kinds) <= {*INTEGRAL} else arithmetic("%", *kinds)


def _trimmed(side: str) -> Template:
    def spell(arguments: Sequence[str]) -> str:
        characters = arguments[1] if len(arguments) > 1 else "' '"
        return f"trim({side} {characters} FROM {arguments[0]})"

    return spell


def _truncated(name: str, text: str) -> Template:
    """Return a template that cuts a number in its decimal digits, as they are written."""
    return PerType(
        lambda kinds, _: (
            f"CAST({name}(CAST({{0}} AS {text}), {'{1}' if len(kinds) > 1 else '0'}) AS {{type}})"
        )
    )


def _printable(kinds: Sequence[DataType]) -> Sequence[DataType]:
    return [kind if is_numeric(kind) or kind in (BOOLEAN, NULL) else VARCHAR for kind in kinds]


def _elt(arguments: Sequence[str]) -> str:
    branches = " ".join(f"WHEN {place} THEN {text}" for place, text in enumerate(arguments[1:], start=1))
    return f"CASE {arguments[0]} {branches} END"


def _affix(kinds: Sequence[DataType]) -> DataType | None:
    return BOOLEAN if common(kinds) is not None else None


def _duckdb_affix(name: str) -> Template:
    """Return DuckDB's template, whose functions do not accept bytes: two bytes are equal if their digits are."""
    return PerType(lambda kinds, _: f"{name}(hex({{0}}), hex({{1}}))" if BYTES in kinds else f"{name}({{*}})")


def _null_if_any(name: str) -> Template:
    def spell(arguments: Sequence[str]) -> str:
        if len(arguments) == 1:
            return arguments[0]
        present = " AND ".join(f"{argument} IS NOT NULL" for argument in arguments)
        return f"CASE WHEN {present} THEN {name}({', '.join(arguments)}) END"

    return spell


def _split(arguments: Sequence[str]) -> str:
    """Return Spark's split, since Java's empty pattern would split a character beyond U+FFFF."""
    text, delimiter = arguments[:2]
    quoted = f"concat('\\\\Q', replace({delimiter}, '\\\\E', '\\\\E\\\\\\\\E\\\\Q'), '\\\\E')"
    return f"split({text}, CASE WHEN {delimiter} = '' THEN '' ELSE {quoted} END, -1)"


_MAP_DELIMITERS = ("','", "'='")

MATHEMATICS: tuple[Function, ...] = (
    function(
        "ABS",
        "number",
        _first,
        "Absolute value.",
        spark=by_text_if_long("abs({0})", "replace({0}, '-', '')"),
        duckdb="abs({0})",
    ),
    _double("POWER", "The first number to the power of the second.", "number, number"),
    _double("SQRT", "Square root."),
    *(
        function(
            name,
            "number",
            DOUBLE,
            f"{doc}; NULL if the number is not above 0.",
            duckdb=f"{name.lower()}(nullif(greatest({{0}}, 0), 0))",
            operands=_doubles,
        )
        for name, doc in (
            ("LN", "Natural logarithm"),
            ("LOG10", "Logarithm to base 10"),
            ("LOG2", "Logarithm to base 2"),
        )
    ),
    function(
        "LOG", "number, [number]", DOUBLE, "LOG(x) is natural; LOG(base, x) has that base.", spark="log({*})"
    ),
    _double("EXP", "e to the power of the number."),
    function(
        "CEIL",
        "number",
        _whole,
        "The smallest whole number that is not less than the argument.",
        spark=_whole_spark("ceil"),
        duckdb=_whole_duckdb("ceil"),
    ),
    function(
        "FLOOR",
        "number",
        _whole,
        "The largest whole number that is not greater than the argument.",
        spark=_whole_spark("floor"),
        duckdb=_whole_duckdb("floor"),
    ),
    function(
        "TRUNCATE",
        "number, [integer]",
        _first,
        "Without the decimal places beyond a number of them (0); a negative number clears digits before the point.",
        spark=_truncated("headrace_truncate", "STRING"),
        duckdb=_truncated("truncated", "VARCHAR"),
        operands=integer_places("number, integer"),
    ),
    *(
        _double(name, doc)
        for name, doc in (
            ("SIN", "Sine."),
            ("COS", "Cosine."),
            ("TAN", "Tangent."),
            ("COT", "Cotangent."),
            ("ASIN", "Arc sine."),
            ("ACOS", "Arc cosine."),
            ("ATAN", "Arc tangent."),
            ("SINH", "Hyperbolic sine."),
            ("COSH", "Hyperbolic cosine."),
            ("TANH", "Hyperbolic tangent."),
            ("DEGREES", "Radians as degrees."),
            ("RADIANS", "Degrees as radians."),
        )
    ),
    _double("ATAN2", "Arc tangent of the coordinates (y, x).", "number, number"),
    function(
        "SIGN",
        "number",
        _sign,
        "-1, 0 or 1; NaN of NaN.",
        spark=PerType(
            lambda kinds, _: f"CAST(sign({{0}}){' + 0.0D' if has_approximate(kinds) else ''} AS {{type}})"
        ),
        duckdb=PerType(
            lambda kinds, _: (
                "CASE WHEN isnan({0}) THEN {0} ELSE CAST(sign({0}) AS {type}) END"
                if has_approximate(kinds)
                else "CAST(sign({0}) AS {type})"
            )
        ),
    ),
    function(
        "ROUND",
        "number, [integer]",
        _rounded,
        "Rounded, half away from zero, to the number of decimal places (0).",
        spark="CAST(round({*}) AS {type})",
        duckdb=PerType(_round_duckdb),
        constant_from=1,
    ),
    _double("PI", "3.14159….", ""),
    function(
        "E", "", DOUBLE, "2.71828….", spark="2.718281828459045D", duckdb="CAST(2.718281828459045 AS DOUBLE)"
    ),
    function(
        "RAND",
        "[integer]",
        DOUBLE,
        "A random number from 0 up to, not including, 1.",
        deterministic=False,
        constant_from=0,
    ),
    function(
        "RAND_INTEGER",
        "integer, [integer]",
        INTEGER,
        "A random whole number from 0 up to, not including, the bound, which is the last argument; the first "
        "of two is a constant seed.",
        spark="CAST(floor(rand() * {0}) AS INT)",
        deterministic=False,
    ),
    function(
        "MOD",
        "number, number",
        _remainder,
        "Remainder; its sign is the dividend's.",
        spark="CAST({0} % {1} AS {type})",
        duckdb=duckdb_arithmetic("%"),
        operands=operands,
    ),
    *(
        function(
            name,
            "integer, integer",
            common,
            f"The bits that {doc}.",
            spark=f"({{0}} {symbol} {{1}})",
            duckdb=duckdb,
            operands=alike,
        )
        for name, symbol, duckdb, doc in (
            ("BITAND", "&", SAME, "both numbers have"),
            ("BITOR", "|", SAME, "one of the numbers has"),
            ("BITXOR", "^", "xor({0}, {1})", "exactly one of the numbers has"),
        )
    ),
    function("BITNOT", "integer", _first, "The number with all bits inverted.", spark="(~ {0})", duckdb=SAME),
    *(
        function(
            name,
            "integer, integer",
            lambda kinds: BIGINT if kinds[0] == BIGINT else INTEGER,
            f"The number with its bits moved to the {doc} by a number of places, modulo 32, or 64 of a BIGINT.",
            operands=lambda kinds: [BIGINT if kinds[0] == BIGINT else INTEGER, INTEGER],
        )
        for name, doc in (("SHIFTLEFT", "left"), ("SHIFTRIGHT", "right, keeping its sign,"))
    ),
    function("BIN", "integer", VARCHAR, "The number in base 2.", duckdb=SAME),
)

TEXTS: tuple[Function, ...] = (
    text_function("UPPER", "text", "In upper case.", duckdb="upper_text({0})"),
    text_function("LOWER", "text", "In lower case.", duckdb="lower_text({0})"),
    text_function("INITCAP", "text", "The first letter of each word in upper case.", duckdb=None),
    function(
        "CHAR_LENGTH",
        "text",
        INTEGER,
        "Number of characters.",
        spark="char_length({0})",
        duckdb="CAST(length({0}) AS {type})",
    ),
    function("OCTET_LENGTH", "text or bytes", INTEGER, "Number of bytes."),
    function(
        "POSITION",
        "text, text",
        INTEGER,
        "1-based position of the first text in the second; 0 if it does not occur.",
        spark="locate({0}, {1})",
        duckdb="CAST(strpos({1}, {0}) AS {type})",
    ),
    function(
        "LOCATE",
        "text, text, [integer]",
        INTEGER,
        "1-based position of the first text in the second, from a position on.",
    ),
    function(
        "INSTR",
        "text, text",
        INTEGER,
        "1-based position of the second text in the first; 0 if it does not occur.",
        duckdb="CAST(strpos({0}, {1}) AS {type})",
    ),
    text_function(
        "TRIM",
        "text, [text]",
        "Without blanks (or the second text's characters) at both ends.",
        spark="btrim({*})",
        duckdb="trim({*})",
    ),
    text_function(
        "LTRIM",
        "text, [text]",
        "Without blanks (or the second text's characters) at the start.",
        spark=_trimmed("LEADING"),
        duckdb="ltrim({*})",
    ),
    text_function(
        "RTRIM",
        "text, [text]",
        "Without blanks (or the second text's characters) at the end.",
        spark=_trimmed("TRAILING"),
        duckdb="rtrim({*})",
    ),
    text_function(
        "REPEAT",
        "text, integer",
        "The text repeated a number of times.",
        spark=_bounded("REPEAT", "char_length({0}) * CAST({1} AS BIGINT)"),
        duckdb="repeated({*})",
    ),
    text_function(
        "REPLACE", "text, text, text", "With each occurrence of the second text replaced by the third."
    ),
    text_function(
        "OVERLAY",
        "text, text, integer, [integer]",
        "With a part, from a 1-based position, overwritten by the second text.",
        duckdb=None,
    ),
    text_function(
        "SUBSTRING",
        "text, integer, [integer]",
        "Substring from a 1-based position (0 is 1, a negative one counts from the end), of a length (or to "
        "the end).",
        duckdb=_substring,
    ),
    text_function(
        "LEFT", "text, integer", "The first characters, as many as specified.", duckdb=_side("left")
    ),
    text_function(
        "RIGHT", "text, integer", "The last characters, as many as specified.", duckdb=_side("right")
    ),
    text_function(
        "LPAD",
        "text, integer, text",
        "Cut, or padded on the left, to a length.",
        spark=_bounded("LPAD", "{1}"),
        duckdb="padded('left', {*})",
    ),
    text_function(
        "RPAD",
        "text, integer, text",
        "Cut, or padded on the right, to a length.",
        spark=_bounded("RPAD", "{1}"),
        duckdb="padded('right', {*})",
    ),
    text_function("REVERSE", "text", "In reverse order.", duckdb="reversed_text({0})"),
    function(
        "CONCAT",
        "any, ...",
        VARCHAR,
        "All arguments as one text; NULL if one is NULL.",
        duckdb=lambda arguments: f"({' || '.join(arguments)})",
    ),
    text_function(
        "CONCAT_WS", "text, any, ...", "All other arguments, with the first between them, without NULLs."
    ),
    text_function(
        "SPLIT_INDEX",
        "text, text, integer",
        "The part at a 0-based position, split at the delimiter; NULL beyond the end.",
        spark=lambda arguments: f"get({_split(arguments)}, {arguments[2]})",
        duckdb=None,
    ),
    function(
        "SPLIT",
        "text, text",
        Array(VARCHAR),
        "The parts between delimiters; the characters if the delimiter is empty.",
        spark=_split,
    ),
    function(
        "STR_TO_MAP",
        "text, [text], [text]",
        Map(VARCHAR, VARCHAR),
        "`k=v,k=v` as a map; delimiters are optional.",
        spark=lambda arguments: (
            f"str_to_map({', '.join([*arguments, *_MAP_DELIMITERS[len(arguments) - 1 :]])})"
        ),
    ),
    text_function(
        "PARSE_URL",
        "text, text, [text]",
        "A part of a URL: HOST, PATH, QUERY, REF, PROTOCOL, …; a QUERY's value by name.",
        duckdb=None,
    ),
    function("ASCII", "text", INTEGER, "Code of the first character.", duckdb=SAME),
    text_function(
        "CHR",
        "integer",
        "The character of a code, modulo 256; an empty text for a negative one.",
        duckdb="CASE WHEN {0} < 0 THEN '' ELSE chr(CAST({0} % 256 AS INTEGER)) END",
    ),
    function(
        "STARTSWITH",
        "text or bytes, text or bytes",
        _affix,
        "True if the text, or bytes, starts with the second argument.",
        duckdb=_duckdb_affix("starts_with"),
    ),
    function(
        "ENDSWITH",
        "text or bytes, text or bytes",
        _affix,
        "True if the text, or bytes, ends with the second argument.",
        duckdb=_duckdb_affix("ends_with"),
    ),
    text_function("CURRENT_DATABASE", "", "The database of the session that creates the query.", duckdb=SAME),
    function(
        "UUID",
        "",
        VARCHAR,
        "A random UUID.",
        duckdb="CAST(uuid() AS VARCHAR)",
        never_null=True,
        deterministic=False,
    ),
    text_function(
        "TRANSLATE",
        "text, text, text",
        "With each character of the second text replaced by the one at its place in the third, or removed "
        "if there is none; unchanged if the second is empty or NULL.",
        spark="translate({0}, coalesce({1}, ''), coalesce({2}, ''))",
    ),
    function(
        "ELT",
        "integer, text or bytes, ...",
        _after_first,
        "The argument at a 1-based position among those after the first; NULL if there is none.",
        spark=_elt,
        duckdb=SAME,
        operands=lambda kinds: [kinds[0], *alike(kinds[1:])],
    ),
    function(
        "PRINTF",
        "text, [any], ...",
        VARCHAR,
        "The arguments in a format of Java's Formatter, such as '%s: %.2f'; NULL for a format that does not fit.",
        spark="headrace_printf({*})",
        operands=_printable,
    ),
    *(
        function(
            name,
            "any",
            BOOLEAN,
            doc,
            spark=f"coalesce(CAST({{0}} AS STRING) RLIKE '{pattern}', false)",
            never_null=True,
        )
        for name, doc, pattern in (
            ("IS_ALPHA", "All characters are letters.", "^\\\\p{L}+$"),
            ("IS_DIGIT", "All characters are digits.", "^\\\\p{Nd}+$"),
            ("IS_DECIMAL", "Can be read as a number.", "^[+-]?(\\\\d+\\\\.?\\\\d*|\\\\.\\\\d+)$"),
        )
    ),
)

CONDITIONALS: tuple[Function, ...] = (
    function("COALESCE", "any, ...", common, "The first argument that is not NULL.", duckdb=SAME),
    function(
        "NULLIF",
        "any, any",
        _first,
        "NULL when both are equal, else the first.",
        duckdb=PerType(
            lambda kinds, _: (
                "CASE WHEN CAST({0} AS DOUBLE) = CAST({1} AS DOUBLE) THEN NULL ELSE {0} END"
                if has_approximate(kinds)
                else "nullif({0}, {1})"
            )
        ),
    ),
    function(
        "IF",
        "boolean, any, any",
        _after_first,
        "The second argument if the condition is true, else the third.",
        duckdb=SAME,
    ),
    function(
        "IFNULL", "any, any", common, "The first argument unless it is NULL, else the second.", duckdb=SAME
    ),
    function(
        "GREATEST",
        "ordered, ...",
        common,
        "The largest; NULL if one is NULL.",
        spark=_null_if_any("greatest"),
        duckdb=SAME,
        operands=alike,
    ),
    function(
        "LEAST",
        "ordered, ...",
        common,
        "The smallest; NULL if one is NULL.",
        spark=_null_if_any("least"),
        duckdb=SAME,
        operands=alike,
    ),
)

SCALARS: tuple[Function, ...] = (*MATHEMATICS, *TEXTS, *CONDITIONALS)
