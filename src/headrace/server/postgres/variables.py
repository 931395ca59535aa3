"""Settings of a connection, which clients of PostgreSQL SET and SHOW; only some of them have an effect here."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Iterator

from headrace import __version__
from headrace.server.postgres.errors import PostgresError

SERVER_VERSION = "16.4"
"""The version whose catalog this door presents; clients choose their queries by it."""

VALUE_LENGTH_MAX = 1024
CUSTOM_MAX = 64

_FIXED = {
    "server_version": f"{SERVER_VERSION} (Headrace {__version__})",
    "server_version_num": "160004",
    "server_encoding": "UTF8",
    "integer_datetimes": "on",
    "is_superuser": "off",
    "in_hot_standby": "off",
    "max_identifier_length": "255",
    "max_index_keys": "32",
    "block_size": "8192",
    "transaction_deferrable": "off",
    "lc_collate": "C",
    "lc_ctype": "C",
    "wal_level": "replica",
}
_INITIAL = {
    "application_name": "",
    "bytea_output": "hex",
    "check_function_bodies": "on",
    "client_encoding": "UTF8",
    "client_min_messages": "notice",
    "datestyle": "ISO, MDY",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "enable_bitmapscan": "on",
    "enable_seqscan": "on",
    "escape_string_warning": "on",
    "extra_float_digits": "1",
    "geqo": "on",
    "idle_in_transaction_session_timeout": "0",
    "intervalstyle": "postgres",
    "jit": "off",
    "lc_messages": "C",
    "lc_monetary": "C",
    "lc_numeric": "C",
    "lc_time": "C",
    "lock_timeout": "0",
    "quote_all_identifiers": "off",
    "row_security": "on",
    "search_path": "public",
    "session_authorization": "",
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "synchronous_commit": "on",
    "timezone": "UTC",
    "transaction_isolation": "read committed",
    "transaction_read_only": "off",
    "work_mem": "4MB",
    "xmloption": "content",
}
_REQUIRED = {
    "client_encoding": re.compile(r"utf-?8|unicode", re.IGNORECASE),
    "datestyle": re.compile(r"iso\b.*", re.IGNORECASE),
    "standard_conforming_strings": re.compile("on|true|1|yes", re.IGNORECASE),
    "bytea_output": re.compile("hex", re.IGNORECASE),
}
"""Settings whose other values would change how values are sent."""

REPORTED = {
    name.lower(): name
    for name in (
        "server_version",
        "server_encoding",
        "client_encoding",
        "application_name",
        "default_transaction_read_only",
        "in_hot_standby",
        "is_superuser",
        "session_authorization",
        "DateStyle",
        "IntervalStyle",
        "TimeZone",
        "integer_datetimes",
        "standard_conforming_strings",
    )
}
"""Settings that a client is sent, by their names as PostgreSQL writes them."""

_TIMEOUT = re.compile(r"(\d{1,9})\s*(ms|s|min|h)?")
_MILLISECONDS = {None: 1, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000}


class Variables:
    """The settings of one connection."""

    def __init__(self, user: str) -> None:
        self._values = {**_FIXED, **_INITIAL, "session_authorization": user}
        self._initial = dict(self._values)

    def begin(self) -> None:
        """Keep the current values for RESET, which returns to them."""
        self._initial = dict(self._values)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield names and values in order."""
        yield from sorted(self._values.items())

    def get(self, name: str) -> str | None:
        """Return a value, None for an unknown name."""
        return self._values.get(name.lower())

    def set(self, name: str, value: str | None) -> str:
        """Set a value, None for the initial one, and return it. Raises PostgresError for an unknown setting and for a value that cannot be
        used."""
        key = name.lower()
        if key in _FIXED:
            raise PostgresError("55P02", f"the setting {name} cannot be changed")
        custom = "." in key
        if key not in self._values and not custom:
            raise PostgresError("42704", f"the setting {name[:100]} does not exist")
        if value is None:
            value = self._initial.get(key, "")
        if len(value) > VALUE_LENGTH_MAX or (custom and key not in self._values and self._is_full):
            raise PostgresError(
                "53000", f"the setting {name[:100]} is too long, or there are too many settings"
            )
        value = value.strip("'")
        required = _REQUIRED.get(key)
        if required is not None and not required.fullmatch(value):
            raise PostgresError(
                "0A000", f"the setting {name} is {self._values[key]}; {value!r} is not supported"
            )
        if key == "timezone":
            value = _zone(value)
        if key == "statement_timeout":
            value = str(_milliseconds(value))
        self._values[key] = value
        return value

    def reset(self) -> None:
        """Return to the initial values."""
        self._values = dict(self._initial)

    @property
    def timeout_s(self) -> float | None:
        """The time limit of statements that read; None for no limit."""
        return int(self._values["statement_timeout"]) / 1000 or None

    @property
    def schema(self) -> str | None:
        """The first schema of the search path that is not one of PostgreSQL's own."""
        names = (part.strip().strip('"') for part in self._values["search_path"].split(","))
        return next((name for name in names if name and name not in ("$user", "pg_catalog")), None)

    @property
    def _is_full(self) -> bool:
        return len(self._values) >= len(_FIXED) + len(_INITIAL) + CUSTOM_MAX


def _zone(value: str) -> str:
    try:
        return zoneinfo.ZoneInfo("UTC" if value.upper() in ("GMT", "Z") else value).key
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise PostgresError(
            "22023", f"the time zone {value[:100]!r} does not exist", hint="Use a name such as Europe/Berlin."
        ) from None


def _milliseconds(value: str) -> int:
    match = _TIMEOUT.fullmatch(value.strip().lower())
    if match is None:
        raise PostgresError("22023", f"expected a time such as 30s, found {value[:100]!r}")
    return int(match[1]) * _MILLISECONDS[match[2]]


def startup_options(text: str) -> dict[str, str]:
    """Return the settings in the `options` of a connection: `-c name=value` and `--name=value`, where a backslash keeps a space. Raises
    PostgresError 22023 for others."""
    words = [re.sub(r"\\(.)", r"\1", word) for word in re.findall(r"(?:\\.|[^\s\\])+", text)]
    settings: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        if word == "-c":
            word = next(rest, "")
        elif word.startswith("-c") or word.startswith("--"):
            word = word[2:]
        else:
            raise PostgresError("22023", f"expected -c name=value in the options, found {word[:100]!r}")
        name, equals, value = word.partition("=")
        if not equals:
            raise PostgresError("22023", f"expected -c name=value in the options, found {word[:100]!r}")
        settings[name.strip().replace("-", "_").lower()] = value.strip()
    return settings
