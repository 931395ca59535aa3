"""The client."""

from __future__ import annotations

import asyncio
import json
import ssl
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

import httpx

from headrace.client.errors import (
    AuthenticationFailedError,
    ConnectionFailedError,
    RequestRefusedError,
    ServerUnreachableError,
    SqlError,
)
from headrace.client.trust import is_loopback, trusted
from headrace.client.wire import (
    AGENT,
    STILL_RUNNING,
    SUCCESS,
    AnswerColumn,
    Completion,
    DeviceCode,
    Plan,
    StatementAnswer,
    StreamOffer,
    StreamStart,
    read_answer,
    read_completion,
    read_device_code,
    read_interval,
    read_plan,
    read_problems,
    read_start,
    read_words,
    request_body,
)
from headrace.core.context import SessionContext
from headrace.core.errors import Diagnostic
from headrace.core.resultset import Cell

_CONNECT_TIMEOUT_S = 10.0
_NO_CONTENT = 204
_ANSWER_TIMEOUT_S = 120.0


class LiveRow(NamedTuple):
    """A row of a live result; in a changelog, `op` is the change to the row's key: `+I` inserts, `+U` updates, `-D` deletes."""

    cells: tuple[Cell, ...]
    op: str | None = None


@dataclass(frozen=True)
class Answer:
    """Answer to a text: the `rows` of a bounded result or, with `is_stream`, a live result to iterate once."""

    columns: tuple[AnswerColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]
    message: str
    context: SessionContext
    _offer: StreamOffer | None = field(default=None, repr=False)
    _is_local: bool = field(default=False, repr=False)

    @property
    def is_stream(self) -> bool:
        """True if the rows are live."""
        return self._offer is not None

    async def stream(
        self, *, on_started: Callable[[StreamStart], None] = lambda _: None
    ) -> AsyncGenerator[LiveRow]:
        """Yield the rows as they come, until the query ends; leaving the iterator (`aclose`) ends the query.

        `on_started` is called once the query runs: the query reads every record that is written to its sources after that.

        Raises SqlError with the query's error, ConnectionFailedError when the connection is lost.
        """
        if self._offer is None:
            for row in self.rows:
                yield LiveRow(row)
            return
        # websockets takes a tenth of a second to import, and most results do not stream.
        from headrace.client.streaming import opened_frames

        async with opened_frames(self._offer, is_local=self._is_local) as frames:
            async for frame in frames:
                if frame["type"] == "data":
                    yield LiveRow(tuple(frame["data"]), frame["headers"].get("op"))
                elif frame["type"] == "metadata":
                    on_started(read_start(frame))
                elif frame["type"] == "error":
                    raise SqlError.read(frame["sqlCode"], frame["message"])


class Client:
    """Client of one session with the server at `url` (`http://host:port`); an asynchronous context manager.

    Without a `token`, `sign_in` comes first.

    `context` holds the current names: each answer's are sent with the next statement. Raises, everywhere, the errors of
    `errors`.
    """

    def __init__(self, url: str, token: str | None, *, context: SessionContext | None = None) -> None:
        base = url.rstrip("/")
        parts = urlsplit(base)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConnectionFailedError(f"expected a URL such as http://127.0.0.1:8080, found {url}")
        self.url = base
        self.context = context or SessionContext("")
        self._session_id = str(uuid.uuid4())
        self._is_local = is_loopback(parts.hostname)
        self._http = httpx.AsyncClient(
            base_url=base if base.endswith("/v2") else base + "/v2",
            headers={"User-Agent": AGENT}
            | ({"Authorization": f"Bearer {token}"} if token is not None else {}),
            timeout=httpx.Timeout(_ANSWER_TIMEOUT_S, connect=_CONNECT_TIMEOUT_S),
            # A proxy of the environment leads away from this machine.
            trust_env=not self._is_local,
            # Plain http uses no certificates, so the authorities need not be loaded.
            verify=trusted() if parts.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def sign_in(self, user: str, password: str) -> None:
        """Sign in with a password, for a client without a token. Raises AuthenticationFailedError for a wrong one."""
        self._name_origin()
        response = await self._send("POST", "/session", json={"user": user, "password": password})
        if response.status_code != _NO_CONTENT:
            _body(response)

    async def sign_in_by_device(self, show: Callable[[DeviceCode], None]) -> None:
        """Sign in with the server's provider of single sign-on, for a client without a token: `show` gets the code for the user, who enters
        it in a browser of any machine. Raises AuthenticationFailedError if the user is refused or the code expires."""
        self._name_origin()
        code = read_device_code(_body(await self._send("POST", "/session/device")))
        show(code)
        interval_s = code.interval_s
        while True:
            await asyncio.sleep(interval_s)
            response = await self._send("POST", "/session/device/poll", json={"device": code.secret})
            if response.status_code == _NO_CONTENT:
                return
            interval_s = read_interval(_body(response))

    async def sign_out(self) -> None:
        """End the session of `sign_in` or `sign_in_by_device`."""
        await self._send("DELETE", "/session")

    def _name_origin(self) -> None:
        # The server accepts the cookie of a session only with an origin of its own: other pages cannot choose it.
        self._http.headers["Origin"] = "{0.scheme}://{0.netloc}".format(urlsplit(self.url))

    async def version(self) -> str:
        """Return the server's version, `major.minor.patch`."""
        body = _body(await self._send("GET", "/version"))
        try:
            return f"{body['major']}.{body['minor']}.{body['patch']}"
        except (KeyError, TypeError) as error:
            raise ConnectionFailedError("the response is not from a Headrace server") from error

    async def execute(
        self, text: str, *, context: SessionContext | None = None, files: Mapping[str, bytes] | None = None
    ) -> Answer:
        """Run the statements of `text` in `context` (default: the client's own context, which the response then replaces).

        `files` are those that statements name, by their names. Waits for the end of a bounded statement, however long, and gathers
        all its rows.
        """
        sent = context or self.context
        body = request_body(text, sent, self._session_id)
        answer = read_answer(_body(await self._post("/statements", body, files or {})), sent)
        while answer.sqlstate == STILL_RUNNING:
            # The server holds a poll until there is an answer or a second has gone: no pause is needed here.
            answer = await self._partition(answer.statement_id, 0, sent)
        if answer.sqlstate != SUCCESS:
            raise SqlError.read(answer.sqlstate, answer.message)
        rows = list(answer.rows)
        for number in range(1, answer.partitions):
            rows += (await self._partition(answer.statement_id, number, sent)).rows
        self.context = answer.context
        return Answer(
            answer.columns, tuple(rows), answer.message, answer.context, answer.stream, self._is_local
        )

    async def check(self, text: str) -> list[Diagnostic]:
        """Check the statements of `text` in the client's context, without running them, and return their errors."""
        body = request_body(text, self.context, self._session_id)
        return read_problems(_body(await self._send("POST", "/validate", json=body)))

    async def plan(self, text: str, files: Mapping[str, bytes]) -> Plan:
        """Return the steps to the state that `text` describes, in the client's context; nothing is run."""
        body = request_body(text, self.context, self._session_id)
        return read_plan(_body(await self._post("/plan", body, files)))

    async def complete(self, text: str, offset: int) -> Completion:
        """Return what can be typed at `offset` of `text`, in the client's context."""
        body = request_body(text, self.context, self._session_id) | {"offset": offset}
        return read_completion(_body(await self._send("POST", "/complete", json=body)))

    async def words(self) -> tuple[str, ...]:
        """Return the keywords of the server's language."""
        return read_words(_body(await self._send("GET", "/language")))

    async def download(self, url: str) -> bytes:
        """Return the file at an address that COPY answered with, `/v2/download/…`."""
        response = await self._send("GET", url.removeprefix("/v2"))
        if response.status_code != 200:
            _body(response)
        return response.content

    async def _post(self, path: str, body: dict[str, object], files: Mapping[str, bytes]) -> httpx.Response:
        if not files:
            return await self._send("POST", path, json=body)
        parts: list[tuple[str, tuple[str | None, str | bytes]]] = [("request", (None, json.dumps(body)))]
        parts += [("attachments", (name, content)) for name, content in files.items()]
        return await self._send("POST", path, files=parts)

    async def _partition(self, statement_id: str, number: int, sent: SessionContext) -> StatementAnswer:
        path = f"/statements/{statement_id}"
        return read_answer(_body(await self._send("GET", path, params={"partitionID": str(number)})), sent)

    async def _send(
        self,
        method: str,
        path: str,
        *,
        json: object = None,
        params: dict[str, str] | None = None,
        files: Any = None,
    ) -> httpx.Response:
        try:
            return await self._http.request(method, path, json=json, params=params, files=files)
        except httpx.TimeoutException as error:
            raise ConnectionFailedError(f"{self.url} does not answer in time") from error
        except httpx.ConnectError as error:
            raise ServerUnreachableError(f"no server answers at {self.url}") from error
        except httpx.HTTPError as error:
            raise ConnectionFailedError(f"cannot reach {self.url}: {error}") from error


def _body(response: httpx.Response) -> Any:
    try:
        body = response.json()
    except ValueError as error:
        raise ConnectionFailedError(
            f"the response is not from a Headrace server (HTTP status {response.status_code})"
        ) from error
    if response.status_code in (200, 202):
        return body
    message = body.get("message") if isinstance(body, dict) else None
    if response.status_code in (401, 403):
        raise AuthenticationFailedError(message or "the token is not valid")
    if message and response.status_code in (400, 404, 413):
        raise RequestRefusedError(message)
    raise ConnectionFailedError(message or f"the server answered with HTTP status {response.status_code}")
