"""Client of a REST catalog, by Iceberg's specification. All functions block: callers use a thread.

The client only connects to the store's own addresses, follows no redirects, uses no proxy, and limits the size of responses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self
from urllib.parse import quote

import httpx

from headrace.connectors.iceberg.failures import CatalogAnswerError, classified
from headrace.connectors.iceberg.metadata import NewTable, Table, table_of
from headrace.connectors.iceberg.options import (
    CATALOG_ID,
    CLIENT_ID,
    CLIENT_SCOPE,
    CLIENT_SECRET,
    OAUTH_URI,
    TOKEN,
    URIS,
)

_CONNECT_TIMEOUT_S = 10.0
_ANSWER_TIMEOUT_S = 30.0
_ANSWER_BYTES_MAX = 64 * 1024 * 1024
_LEVELS = "\x1f"
_PAGES_MAX = 1000


class RestCatalog:
    """A catalog, used by one statement; a context manager.

    Methods raise the errors of `failures`; namespaces are tuples of names.
    """

    def __init__(self, store: Mapping[str, str]) -> None:
        self._store = store
        timeout = httpx.Timeout(_ANSWER_TIMEOUT_S, connect=_CONNECT_TIMEOUT_S)
        self._client = httpx.Client(timeout=timeout, trust_env=False, follow_redirects=False)
        self._headers: dict[str, str] = {}
        self._prefix = ""

    def __enter__(self) -> Self:
        try:
            with classified("its settings"):
                self._headers = self._authorization()
                named = self._store.get(CATALOG_ID.name)
                answer = self._ask("GET", "/config", params={"warehouse": named} if named else {})
        except BaseException:
            self._client.close()
            raise
        prefix = {**answer.get("defaults", {}), **answer.get("overrides", {})}.get("prefix")
        self._prefix = f"/{quote(prefix, safe='/')}" if prefix else ""
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def namespaces(self, within: tuple[str, ...]) -> list[str]:
        """Return the namespaces directly below a namespace, () being the top."""
        parent = {"parent": _LEVELS.join(within)} if within else {}
        with classified(".".join(within)):
            names = self._pages("/namespaces", "namespaces", parent)
            return [levels[-1] for levels in names if len(levels) == len(within) + 1]

    def tables(self, namespace: tuple[str, ...]) -> list[str]:
        """Return the tables of a namespace."""
        with classified(".".join(namespace)):
            return [one["name"] for one in self._pages(f"{_path(namespace)}/tables", "identifiers", {})]

    def load(self, namespace: tuple[str, ...], table: str) -> Table:
        """Return a table as the catalog describes it."""
        with self._of(namespace, table) as path:
            return table_of(self._ask("GET", self._prefix + path)["metadata"])

    def create_namespace(self, namespace: tuple[str, ...]) -> None:
        """Makes one."""
        with classified(".".join(namespace)):
            body = {"namespace": list(namespace), "properties": {}}
            self._ask("POST", f"{self._prefix}/namespaces", body)

    def drop_namespace(self, namespace: tuple[str, ...]) -> None:
        """Drop a namespace, which must be empty."""
        with classified(".".join(namespace)):
            self._ask("DELETE", self._prefix + _path(namespace))

    def create(self, namespace: tuple[str, ...], table: str, new: NewTable) -> None:
        """Create a table at the location that the catalog chooses."""
        body = {
            "name": table,
            "schema": new.schema,
            "partition-spec": new.partition_spec,
            "properties": dict(new.properties),
        }
        with classified(".".join((*namespace, table))):
            self._ask("POST", f"{self._prefix}{_path(namespace)}/tables", body)

    def drop(self, namespace: tuple[str, ...], table: str) -> None:
        """Remove a table from the catalog; its files stay."""
        with self._of(namespace, table) as path:
            self._ask("DELETE", self._prefix + path, params={"purgeRequested": "false"})

    @contextmanager
    def _of(self, namespace: tuple[str, ...], table: str) -> Iterator[str]:
        with classified(".".join((*namespace, table))):
            yield f"{_path(namespace)}/tables/{quote(table, safe='')}"

    def _pages(self, path: str, field: str, params: Mapping[str, str]) -> list[Any]:
        items: list[Any] = []
        page = ""
        for _ in range(_PAGES_MAX):
            answer = self._ask("GET", self._prefix + path, params={**params, "pageToken": page})
            items += answer[field]
            page = answer.get("next-page-token") or ""
            if not page:
                break
        return items

    def _authorization(self) -> dict[str, str]:
        token = self._store.get(TOKEN.name) or self._token()
        return {"Authorization": f"Bearer {token}"} if token else {}

    def _token(self) -> str | None:
        if CLIENT_ID.name not in self._store:
            return None
        form = {
            "grant_type": "client_credentials",
            "client_id": self._store[CLIENT_ID.name],
            "client_secret": self._store[CLIENT_SECRET.name],
            "scope": self._store[CLIENT_SCOPE.name],
        }
        answer = self._exchange("POST", token_address(self._store), data=form)
        return str(answer["access_token"])

    def _ask(
        self, method: str, path: str, body: Any = None, params: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        url = f"{self._store[URIS.name]}/v1{path}"
        return self._exchange(method, url, json=body, params=params or {}, headers=self._headers)

    def _exchange(self, method: str, url: str, **request: Any) -> dict[str, Any]:
        with self._client.stream(method, url, **request) as answer:
            text = b""
            for part in answer.iter_bytes():
                text += part
                if len(text) > _ANSWER_BYTES_MAX:
                    raise CatalogAnswerError("the catalog's response is too long")
        try:
            payload = json.loads(text) if text else {}
        except ValueError:
            payload = None
        if answer.is_success and isinstance(payload, dict):
            return payload
        raise CatalogAnswerError(_error_text(answer.status_code, payload))


def reach(store: Mapping[str, str]) -> None:
    """Check that a server answers at the catalog's address, even if it refuses a request without a token; raises ExternalError 57015."""
    timeout = httpx.Timeout(_CONNECT_TIMEOUT_S)
    with classified(store[URIS.name]):
        url = f"{store[URIS.name]}/v1/config"
        with httpx.Client(timeout=timeout, trust_env=False) as client, client.stream("GET", url) as answer:
            if answer.is_server_error:
                raise CatalogAnswerError(_error_text(answer.status_code, None))


def token_address(store: Mapping[str, str]) -> str:
    """Return the address that issues tokens for a store's client."""
    return store.get(OAUTH_URI.name) or f"{store[URIS.name]}/v1/oauth/tokens"


def _path(namespace: tuple[str, ...]) -> str:
    return f"/namespaces/{quote(_LEVELS.join(namespace), safe='')}"


def _error_text(status: int, answer: Any) -> str:
    """Return the type of an error without its text, which the server chooses."""
    match answer:
        case {"error": {"type": str() as kind}}:
            return f"HTTP {status} {kind[:100]}"
        case {"error": str() as kind}:  # OAuth's
            return f"HTTP {status} {kind[:100]}"
    return f"no catalog: HTTP {status}"
