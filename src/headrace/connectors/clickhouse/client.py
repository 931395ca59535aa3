"""A server's HTTP interface: statements with their parameters, files of rows in, rows out as Arrow.

Each statement is a separate request: there is no session whose state could remain. The client follows no redirects and uses no
proxy.
"""

from __future__ import annotations

import io
import json
import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from headrace.connectors.clickhouse.failures import no_clickhouse, of_clickhouse, of_network
from headrace.connectors.clickhouse.options import PASSWORD, URIS, USERNAME, address, base_url
from headrace.connectors.hosts import resolve
from headrace.connectors.tls import TLS_CA, TLS_DISABLED, TLS_VERIFY

_CONNECT_TIMEOUT_S = 15.0
# The time limit of a statement: a server merges parts and waits for its replicas before it confirms rows.
_ANSWER_TIMEOUT_S = 300.0
_CODE = re.compile(r"Code: (\d+)\.")
_ERROR_BYTES_MAX = 64 * 1024
# Values that are not valid text become text; large numbers stay numbers.
_JSON = {"output_format_json_validate_utf8": 1, "output_format_json_quote_64bit_integers": 0}
_PART_BYTES = 1024 * 1024

Settings = Mapping[str, str | int]
Parameters = Mapping[str, str]


class ClickHouse:
    """Client of one server, as a store's user; a context manager. Methods raise UserError or ExternalError, classified."""

    def __init__(self, store: Mapping[str, str], *, timeout_s: float = _ANSWER_TIMEOUT_S) -> None:
        place = address(store[URIS.name])
        self.database = place.name
        self._host = place.host
        self._url = base_url(store)
        self.server = self._url.partition("//")[2]
        self._http = httpx.Client(
            verify=_tls(store),
            auth=httpx.BasicAuth(store[USERNAME.name], store[PASSWORD.name]),
            timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_TIMEOUT_S)),
            follow_redirects=False,
            trust_env=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def ping(self) -> None:
        """Check that ClickHouse answers. Its /ping checks neither user nor password."""
        self._resolve()
        try:
            answer = self._http.get(f"{self._url}/ping")
        except httpx.HTTPError as error:
            raise of_network(error, self.server) from None
        if answer.status_code != httpx.codes.OK or answer.text.strip() != "Ok.":
            raise no_clickhouse(self.server)

    def rows(self, statement: str, parameters: Parameters | None = None) -> list[dict[str, Any]]:
        """Run a query, and return its rows by the names of columns."""
        return [json.loads(line) for line in self.lines(statement, parameters)]

    def lines(self, statement: str, parameters: Parameters | None = None) -> list[str]:
        """Run a query, and return each row as the text of a JSON object."""
        with self._answer(f"{statement} FORMAT JSONEachRow", parameters, _JSON) as answer:
            return answer.read().decode().splitlines()

    def execute(self, statement: str, parameters: Parameters | None = None) -> None:
        """Execute a statement without rows."""
        with self._answer(statement, parameters) as answer:
            answer.read()

    def insert(self, target: str, file: Path, settings: Settings) -> None:
        """Insert a Parquet file into `target`, a table with its columns as SQL; returns when the server has it."""
        with (
            file.open("rb") as content,
            self._answer(f"INSERT INTO {target} FORMAT Parquet", None, settings, content) as answer,
        ):
            answer.read()

    def insert_arrow(self, target: str, stream: bytes, settings: Settings) -> None:
        """Insert an Arrow stream, as `insert` does."""
        statement = f"INSERT INTO {target} FORMAT ArrowStream"
        with self._answer(statement, None, settings, io.BytesIO(stream)) as answer:
            answer.read()

    @contextmanager
    def arrow(self, statement: str, settings: Settings) -> Iterator[io.BufferedReader]:
        """Yield the Arrow stream of a query."""
        with self._answer(f"{statement} FORMAT ArrowStream", None, settings) as answer:
            yield io.BufferedReader(_Content(answer.iter_bytes(_PART_BYTES)), _PART_BYTES)

    @contextmanager
    def _answer(
        self,
        statement: str,
        parameters: Parameters | None,
        settings: Settings | None = None,
        content: io.BufferedIOBase | None = None,
    ) -> Iterator[httpx.Response]:
        query_parameters: dict[str, str | int] = {"database": self.database, **(settings or {})}
        query_parameters |= {f"param_{name}": _escaped(value) for name, value in (parameters or {}).items()}
        body: bytes | io.BufferedIOBase = statement.encode() if content is None else content
        if content is not None:
            query_parameters["query"] = statement
        self._resolve()
        try:
            with self._http.stream("POST", self._url + "/", params=query_parameters, content=body) as answer:
                self._check(answer)
                yield answer
        except httpx.HTTPError as error:
            raise of_network(error, self.server) from None

    def _check(self, answer: httpx.Response) -> None:
        ours = any(name.startswith("x-clickhouse-") for name in answer.headers)
        if answer.status_code == httpx.codes.OK and ours:
            return
        text = bytearray()
        for part in answer.iter_bytes():
            text += part
            if len(text) > _ERROR_BYTES_MAX:
                break
        message = text.decode(errors="replace")
        code = _CODE.search(answer.headers.get("X-ClickHouse-Exception-Code", "") or message)
        number = answer.headers.get("X-ClickHouse-Exception-Code") or (code and code[1])
        if not ours or not number or not str(number).isdigit():
            raise no_clickhouse(self.server)
        raise of_clickhouse(int(number), message, self.server)

    def _resolve(self) -> None:
        """Resolve the host: httpx does not distinguish an unknown name from a server that is down."""
        resolve(self._host)


class _Content(io.RawIOBase):
    """The parts of an answer as a file."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            part = next(self._parts, None)
            if part is None:
                return 0
            self._left = memoryview(part)
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size


def identifier(name: str) -> str:
    """Return a name as SQL."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def literal(value: str) -> str:
    """Return a text as SQL."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _escaped(value: str) -> str:
    """Return a parameter of type String: ClickHouse reads it as a field of its tab-separated format."""
    for plain, escaped in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"), ("\0", "\\0")):
        value = value.replace(plain, escaped)
    return value


def _tls(store: Mapping[str, str]) -> ssl.SSLContext | bool:
    if store[TLS_DISABLED.name] == "TRUE":
        return False
    context = ssl.create_default_context(cadata=store.get(TLS_CA.name))
    context.check_hostname = store[TLS_VERIFY.name] == "TRUE"
    return context
