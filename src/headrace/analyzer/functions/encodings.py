"""Functions that encode and hash texts and bytes."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.analyzer.functions.signature import SAME, Function, function, text_function
from headrace.core.types import BIGINT, BYTES, INTEGRAL, NULL, VARCHAR, DataType, Varchar


def _hexadecimal(kinds: Sequence[DataType]) -> DataType | None:
    return VARCHAR if kinds[0] in (*INTEGRAL, BYTES, NULL) or isinstance(kinds[0], Varchar) else None


ENCODINGS: tuple[Function, ...] = (
    function("HEX", "any", _hexadecimal, "A whole number, text or bytes in base 16.", duckdb=SAME),
    function(
        "UNHEX",
        "text",
        BYTES,
        "The bytes of a text in base 16; NULL if it is not. Of an odd number of digits, the first counts as 0.",
        spark="unhex(CASE WHEN char_length({0}) % 2 = 1 AND {0} RLIKE '^[0-9A-Fa-f]' "
        "THEN concat('00', substring({0}, 2)) ELSE {0} END)",
        duckdb="CASE WHEN regexp_full_match({0}, '[0-9A-Fa-f]*') "
        "THEN unhex(CASE WHEN length({0}) % 2 = 1 THEN concat('00', substring({0}, 2)) ELSE {0} END) END",
    ),
    text_function("TO_BASE64", "text or bytes", "In base 64.", spark="base64({0})", duckdb=None),
    text_function(
        "FROM_BASE64",
        "text",
        "The text decoded from base 64.",
        spark="CAST(unbase64({0}) AS STRING)",
        duckdb=None,
    ),
    text_function("DECODE", "bytes, text", "Bytes as text, in a character set such as 'UTF-8'.", duckdb=None),
    function("ENCODE", "text, text", BYTES, "Text as bytes, in a character set such as 'UTF-8'."),
    text_function(
        "URL_ENCODE",
        "text",
        "In the encoding of URLs' queries (application/x-www-form-urlencoded, UTF-8).",
        spark="headrace_url_encode({0})",
        duckdb="url_encoded({0})",
    ),
    text_function(
        "URL_DECODE",
        "text",
        "The text that URL_ENCODE has encoded; NULL for an illegal escape.",
        spark="headrace_url_decode({0})",
        duckdb="url_decoded({0})",
    ),
    function(
        "INET_ATON",
        "text",
        BIGINT,
        "The number of an IPv4 address; `a.b` is `a.0.0.b`. NULL for any other text.",
        spark="headrace_inet_aton({0})",
        duckdb="address_number({0})",
    ),
    text_function(
        "INET_NTOA",
        "integer",
        "The IPv4 address with a number; NULL if there is none.",
        spark="headrace_inet_ntoa({0})",
        duckdb="address_text({0})",
    ),
    *(
        text_function(name, "text", doc, spark=spark, duckdb=duckdb)
        for name, doc, spark, duckdb in (
            ("MD5", "MD5 hash, in base 16.", None, SAME),
            ("SHA1", "SHA-1 hash, in base 16.", None, None),
            ("SHA224", "SHA-224 hash, in base 16.", "sha2({0}, 224)", None),
            ("SHA256", "SHA-256 hash, in base 16.", "sha2({0}, 256)", "sha256({0})"),
            ("SHA384", "SHA-384 hash, in base 16.", "sha2({0}, 384)", None),
            ("SHA512", "SHA-512 hash, in base 16.", "sha2({0}, 512)", None),
        )
    ),
    text_function(
        "SHA2", "text, integer", "SHA-2 hash of 224, 256, 384 or 512 bits, in base 16.", duckdb=None
    ),
    *(
        text_function(
            f"HMAC_{name}",
            "text, text",
            f"Hash of the first text with the second as the key, HMAC-{standard}, in base 16.",
            spark=f"headrace_hmac({{0}}, {{1}}, 'Hmac{name}')",
            duckdb=f"keyed_hash({{0}}, {{1}}, '{name.lower()}')",
        )
        for name, standard in (
            ("MD5", "MD5"),
            ("SHA1", "SHA-1"),
            ("SHA224", "SHA-224"),
            ("SHA256", "SHA-256"),
            ("SHA384", "SHA-384"),
            ("SHA512", "SHA-512"),
        )
    ),
)
