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
    OperandRule,
    PerType,
    Spelling,
    Template,
    by_text_if_long,
    function,
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
    Varchar,
)
from headrace.formats.json import nested_sql


def _first(kinds: Sequence[DataType]) -> DataType:
    return kinds[0]


def _rounded(kinds: Sequence[DataType]) -> DataType:
    """Return a type with one more digit before the point: 9.99 is rounded to 10.00."""
    kind = kinds[0]
    return Decimal(min(38, kind.precision + 1), kind.scale) if isinstance(kind, Decimal) else kind


def _doubles(kinds: Sequence[DataType]) -> Sequence[DataType]:
    return [DOUBLE] * len(kinds)


def _alike(kinds: Sequence[DataType]) -> Sequence[DataType]:
    kind = common(kinds)
    return kinds if kind is None else [kind] * len(kinds)


def _whole(kinds: Sequence[DataType]) -> DataType:
    kind = kinds[0]
    if isinstance(kind, Decimal):
        return Decimal(min(38, kind.precision - kind.scale + 1), 0)
    return kind if kind in (FLOAT, DOUBLE) else BIGINT


def _last_two(kinds: Sequence[DataType]) -> DataType | None:
    return common(kinds[1:])


def _array_element(kinds: Sequence[DataType]) -> DataType | None:
    return kinds[0].element if isinstance(kinds[0], Array) else None


def _array_of(kinds: Sequence[DataType]) -> DataType | None:
    element = common(kinds)
    return None if element is None else Array(element)


def _map_of(kinds: Sequence[DataType]) -> DataType | None:
    key, value = common(kinds[0::2]), common(kinds[1::2])
    return None if key is None or value is None or len(kinds) % 2 else Map(key, value)


def _map_keys(kinds: Sequence[DataType]) -> DataType | None:
    return Array(kinds[0].key) if isinstance(kinds[0], Map) else None


def _map_values(kinds: Sequence[DataType]) -> DataType | None:
    return Array(kinds[0].value) if isinstance(kinds[0], Map) else None


def _double(name: str, doc: str, signature: str = "number", spark: str | None = None) -> Function:
    return function(name, signature, DOUBLE, doc, spark=spark, duckdb=SAME, operands=_doubles)


def _text(
    name: str, signature: str, doc: str, *, spark: Template | None = None, duckdb: Template | None = SAME
) -> Function:
    return function(name, signature, VARCHAR, doc, spark=spark, duckdb=duckdb, operands=_places(signature))


def _bounded(name: str, length: str) -> str:
    """Return Spark SQL of a function that fails for a text that is too long to be made: it would end the driver and all its queries."""
    refusal = f"{name} would return a text of more than {TEXT_LENGTH_MAX} characters"
    return f"IF({length} > {TEXT_LENGTH_MAX}, raise_error('{refusal}'), {name.lower()}({{*}}))"


def _places(signature: str) -> OperandRule:
    """Return the rule for places and lengths in a text, which are INTEGERs, as in Spark: a larger BIGINT ends a query."""
    places = {n for n, part in enumerate(signature.split(",")) if n and part.strip(" []") == "integer"}
    return lambda kinds: [INTEGER if n in places and kind == BIGINT else kind for n, kind in enumerate(kinds)]


def _hexadecimal(kinds: Sequence[DataType]) -> DataType | None:
    return VARCHAR if kinds[0] in (*INTEGRAL, BYTES, NULL) or isinstance(kinds[0], Varchar) else None


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


def _regexp_extract(arguments: Sequence[str]) -> str:
    group = arguments[2] if len(arguments) > 2 else "0"
    return f"CASE WHEN {arguments[0]} RLIKE {arguments[1]} THEN regexp_extract({arguments[0]}, {arguments[1]}, {group}) END"


def _null_if_any(name: str) -> Template:
    def spell(arguments: Sequence[str]) -> str:
        present = " AND ".join(f"{argument} IS NOT NULL" for argument in arguments)
        return f"CASE WHEN {present} THEN {name}({', '.join(arguments)}) END"

    return spell


def _json_string(arguments: Sequence[str]) -> str:
    """Return to_json of an array with its brackets removed, since Spark's to_json does not accept a plain value."""
    text = nested_sql(f"array({arguments[0]})", nulls=False)
    return f"CASE WHEN {arguments[0]} IS NOT NULL THEN substring({text}, 2, char_length({text}) - 2) END"


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
        "integer",
        INTEGER,
        "A random whole number from 0 up to, not including, the bound.",
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
    function("BIN", "integer", VARCHAR, "The number in base 2.", duckdb=SAME),
    function("HEX", "any", _hexadecimal, "A whole number, text or bytes in base 16.", duckdb=SAME),
)

TEXTS: tuple[Function, ...] = (
    _text("UPPER", "text", "In upper case.", duckdb="upper_text({0})"),
    _text("LOWER", "text", "In lower case.", duckdb="lower_text({0})"),
    _text("INITCAP", "text", "The first letter of each word in upper case.", duckdb=None),
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
    _text(
        "TRIM",
        "text, [text]",
        "Without blanks (or the second text's characters) at both ends.",
        spark="btrim({*})",
        duckdb="trim({*})",
    ),
    _text(
        "LTRIM",
        "text, [text]",
        "Without blanks (or the second text's characters) at the start.",
        spark=_trimmed("LEADING"),
        duckdb="ltrim({*})",
    ),
    _text(
        "RTRIM",
        "text, [text]",
        "Without blanks (or the second text's characters) at the end.",
        spark=_trimmed("TRAILING"),
        duckdb="rtrim({*})",
    ),
    _text(
        "REPEAT",
        "text, integer",
        "The text repeated a number of times.",
        spark=_bounded("REPEAT", "char_length({0}) * CAST({1} AS BIGINT)"),
        duckdb="repeated({*})",
    ),
    _text("REPLACE", "text, text, text", "With each occurrence of the second text replaced by the third."),
    _text(
        "REGEXP_REPLACE",
        "text, text, text",
        "With each match of the regular expression replaced; `$1` is its first group, `\\$` is a dollar.",
        duckdb="regexp_replace({0}, {1}, replacement({2}), 'g')",
    ),
    _text(
        "REGEXP_EXTRACT",
        "text, text, [integer]",
        "The group (0: all) of the first match; NULL when nothing matches.",
        spark=_regexp_extract,
        duckdb=None,
    ),
    function(
        "REGEXP",
        "text, text",
        BOOLEAN,
        "True if a part matches the regular expression.",
        spark="({0} RLIKE {1})",
        duckdb="regexp_matches({0}, {1})",
    ),
    _text(
        "OVERLAY",
        "text, text, integer, [integer]",
        "With a part, from a 1-based position, overwritten by the second text.",
        duckdb=None,
    ),
    _text(
        "SUBSTRING",
        "text, integer, [integer]",
        "Substring from a 1-based position (0 is 1, a negative one counts from the end), of a length (or to "
        "the end).",
        duckdb=_substring,
    ),
    _text("LEFT", "text, integer", "The first characters, as many as specified.", duckdb=_side("left")),
    _text("RIGHT", "text, integer", "The last characters, as many as specified.", duckdb=_side("right")),
    _text(
        "LPAD",
        "text, integer, text",
        "Cut, or padded on the left, to a length.",
        spark=_bounded("LPAD", "{1}"),
        duckdb="padded('left', {*})",
    ),
    _text(
        "RPAD",
        "text, integer, text",
        "Cut, or padded on the right, to a length.",
        spark=_bounded("RPAD", "{1}"),
        duckdb="padded('right', {*})",
    ),
    _text("REVERSE", "text", "In reverse order.", duckdb="reversed_text({0})"),
    function(
        "CONCAT",
        "any, ...",
        VARCHAR,
        "All arguments as one text; NULL if one is NULL.",
        duckdb=lambda arguments: f"({' || '.join(arguments)})",
    ),
    _text("CONCAT_WS", "text, any, ...", "All other arguments, with the first between them, without NULLs."),
    _text(
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
    _text(
        "PARSE_URL",
        "text, text, [text]",
        "A part of a URL: HOST, PATH, QUERY, REF, PROTOCOL, …; a QUERY's value by name.",
        duckdb=None,
    ),
    function("ASCII", "text", INTEGER, "Code of the first character.", duckdb=SAME),
    _text(
        "CHR",
        "integer",
        "The character of a code, modulo 256; an empty text for a negative one.",
        duckdb="CASE WHEN {0} < 0 THEN '' ELSE chr(CAST({0} % 256 AS INTEGER)) END",
    ),
    _text("TO_BASE64", "text or bytes", "In base 64.", spark="base64({0})", duckdb=None),
    _text(
        "FROM_BASE64",
        "text",
        "The text decoded from base 64.",
        spark="CAST(unbase64({0}) AS STRING)",
        duckdb=None,
    ),
    _text("DECODE", "bytes, text", "Bytes as text, in a character set such as 'UTF-8'.", duckdb=None),
    function("ENCODE", "text, text", BYTES, "Text as bytes, in a character set such as 'UTF-8'."),
    function(
        "STARTSWITH",
        "text, text",
        BOOLEAN,
        "True if the text starts with the second text.",
        duckdb="starts_with({*})",
    ),
    function(
        "ENDSWITH",
        "text, text",
        BOOLEAN,
        "True if the text ends with the second text.",
        duckdb="ends_with({*})",
    ),
    function(
        "UUID",
        "",
        VARCHAR,
        "A random UUID.",
        duckdb="CAST(uuid() AS VARCHAR)",
        never_null=True,
        deterministic=False,
    ),
    *(
        _text(name, "text", doc, spark=spark, duckdb=duckdb)
        for name, doc, spark, duckdb in (
            ("MD5", "MD5 hash, in base 16.", None, SAME),
            ("SHA1", "SHA-1 hash, in base 16.", None, None),
            ("SHA224", "SHA-224 hash, in base 16.", "sha2({0}, 224)", None),
            ("SHA256", "SHA-256 hash, in base 16.", "sha2({0}, 256)", "sha256({0})"),
            ("SHA384", "SHA-384 hash, in base 16.", "sha2({0}, 384)", None),
            ("SHA512", "SHA-512 hash, in base 16.", "sha2({0}, 512)", None),
        )
    ),
    _text("SHA2", "text, integer", "SHA-2 hash of 224, 256, 384 or 512 bits, in base 16.", duckdb=None),
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
        _last_two,
        "The second argument if the condition is true, else the third.",
        duckdb=SAME,
    ),
    function(
        "IFNULL", "any, any", common, "The first argument unless it is NULL, else the second.", duckdb=SAME
    ),
    function(
        "GREATEST",
        "ordered, ordered, ...",
        common,
        "The largest; NULL if one is NULL.",
        spark=_null_if_any("greatest"),
        duckdb=SAME,
        operands=_alike,
    ),
    function(
        "LEAST",
        "ordered, ordered, ...",
        common,
        "The smallest; NULL if one is NULL.",
        spark=_null_if_any("least"),
        duckdb=SAME,
        operands=_alike,
    ),
)

COLLECTIONS: tuple[Function, ...] = (
    function("CARDINALITY", "array or map", INTEGER, "Number of elements.", spark="cardinality({0})"),
    function(
        "ELEMENT",
        "array",
        _array_element,
        "The only element of an array; NULL of an empty one.",
        spark="try_element_at({0}, 1)",
    ),
    function("ARRAY", "any, ...", _array_of, "The arguments as an array.", never_null=True),
    function("MAP", "any, ...", _map_of, "Keys and values, in turn, as a map.", never_null=True),
    function("ARRAY_CONTAINS", "array, any", BOOLEAN, "True if the array contains the element."),
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
    function("ARRAY_UNION", "array, array", _first, "The distinct elements of both."),
    function(
        "ARRAY_CONCAT", "array, array", _first, "The second array appended to the first.", spark="concat({*})"
    ),
    function("ARRAY_MAX", "array", _array_element, "The largest element."),
    function("ARRAY_MIN", "array", _array_element, "The smallest element."),
    function("MAP_KEYS", "map", _map_keys, "The keys of a map."),
    function("MAP_VALUES", "map", _map_values, "The values of a map."),
)


def _json(name: str, output: str, doc: str) -> Function:
    arguments = f"({{0}}, {{1}}, '{output}')"
    return function(
        name,
        "text, text",
        VARCHAR,
        doc,
        spark=f"headrace_json{arguments}",
        duckdb=f"json_answer{arguments}",
    )


JSON_STATES = {
    "JSON_VALUE": _json("JSON_VALUE_STATE", "value_state", "found, empty or error."),
    "JSON_QUERY": _json("JSON_QUERY_STATE", "query_state", "found, empty or error."),
}
"""Conditions of ON EMPTY and ON ERROR by function."""

JSON: tuple[Function, ...] = (
    _json(
        "JSON_VALUE",
        "value",
        "The scalar at a path ('$.a.b[0]') of a JSON text, as text; NULL if there is none.",
    ),
    _json(
        "JSON_QUERY",
        "query",
        "The object or array at a path of a JSON text, as JSON text; NULL if there is none.",
    ),
    function(
        "JSON_EXISTS",
        "text, text",
        BOOLEAN,
        "True if the path matches a value in the JSON text, including null.",
        spark="(headrace_json({0}, {1}, 'exists') IS NOT NULL)",
        duckdb="(json_answer({0}, {1}, 'exists') IS NOT NULL)",
    ),
    function("JSON_STRING", "any", VARCHAR, "The value as JSON text; NULL of NULL.", spark=_json_string),
)

SCALARS: tuple[Function, ...] = (*MATHEMATICS, *TEXTS, *CONDITIONALS, *COLLECTIONS, *JSON)
