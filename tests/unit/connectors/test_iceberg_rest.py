"""A REST catalog as a server of HTTP sees its client: credentials, prefixes, pages, and answers that are none."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from headrace.connectors.iceberg.options import REST, read_rest
from headrace.connectors.iceberg.rest import RestCatalog, reach
from headrace.core.errors import ExternalError, HeadraceError
from headrace.core.properties import PropertyReader, Scope, of_scope, stored

TOKEN = "a.token"


class Front:
    """A catalog of fixed answers: `answers` by path, (status, body); `seen` are the requests."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, Any]] = {
            "/v1/config": (200, {"defaults": {}, "overrides": {"prefix": "a/b c"}})
        }
        self.seen: list[tuple[str, str, str | None, dict[str, list[str]]]] = []
        front = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                parts = urlsplit(self.path)
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                asked = parse_qs(parts.query) | (parse_qs(body) if self.command == "POST" else {})
                front.seen.append((self.command, parts.path, self.headers.get("Authorization"), asked))
                page = asked.get("pageToken", [""])[0]
                status, answer = front.answers.get(parts.path + page, (404, "<html>nothing</html>"))
                text = answer if isinstance(answer, str) else json.dumps(answer)
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                if status == 302:
                    self.send_header("Location", "http://127.0.0.1:1/")
                self.end_headers()
                self.wfile.write(text.encode())

            do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - names that http.server calls

            def log_message(self, format: str, *args: object) -> None:
                """Nothing: the test reads no log."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def store(self, **properties: str) -> dict[str, str]:
        given = {"uris": f"http://127.0.0.1:{self.server.server_port}", "tls.disabled": "true"}
        given |= {name.replace("__", "."): value for name, value in properties.items()}
        return read_rest(PropertyReader(stored(given), of_scope(REST, Scope.STORE), what="a store"))


@pytest.fixture
def front() -> Iterator[Front]:
    front = Front()
    thread = threading.Thread(target=front.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield front
    front.server.shutdown()
    thread.join()
    front.server.server_close()


def listed(store: dict[str, str]) -> list[str]:
    with RestCatalog(store) as catalog:
        return catalog.namespaces(())


def test_a_client_gets_a_token_and_shows_it_and_follows_pages_below_the_prefix(front: Front) -> None:
    front.answers["/v1/oauth/tokens"] = (200, {"access_token": TOKEN, "token_type": "bearer"})
    path = "/v1/a/b%20c/namespaces"
    front.answers[path] = (200, {"namespaces": [["one"]], "next-page-token": "2"})
    front.answers[path + "2"] = (200, {"namespaces": [["two"]]})
    client = {"iceberg__rest__client_id": "me", "iceberg__rest__client_secret": "hunter2"}
    store = front.store(**client, iceberg__rest__client_scope="ROLE:ALL", iceberg__catalog__id="sales")
    assert listed(store) == ["one", "two"]
    token, config, *pages = front.seen
    assert token[3]["client_secret"] == ["hunter2"]
    assert token[3]["scope"] == ["ROLE:ALL"]
    assert config[3]["warehouse"] == ["sales"]
    assert {one[2] for one in (config, *pages)} == {f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (
            401,
            {"error": {"type": "NotAuthorizedException", "message": "hunter2 is wrong", "code": 401}},
            "authentication: the catalog refused",
        ),
        (
            403,
            {"error": {"type": "ForbiddenException", "message": "no", "code": 403}},
            "authorization: the catalog does not allow",
        ),
        (
            503,
            {"error": {"type": "ServiceUnavailableException", "message": "no", "code": 503}},
            "does not answer as such",
        ),
        (200, "<html>hunter2</html>", "does not answer as such"),
        (200, "[1]", "does not answer as such"),
        (302, "", "does not answer as such"),
        (418, {"error": {"type": "Teapot", "message": "hunter2"}}, "reported an error"),
    ],
)
def test_an_invalid_answer_is_reported_without_its_text(
    front: Front, status: int, body: Any, message: str
) -> None:
    front.answers["/v1/config"] = (status, body)
    with pytest.raises(HeadraceError, match=message) as caught:
        listed(front.store(iceberg__rest__token=TOKEN))
    assert isinstance(caught.value, ExternalError)
    assert "hunter2" not in caught.value.text()
    assert front.seen[0][2] == f"Bearer {TOKEN}"


def test_a_refusal_names_the_failed_step(front: Front) -> None:
    front.answers["/v1/oauth/tokens"] = (400, {"error": "invalid_client", "error_description": "hunter2"})
    with pytest.raises(ExternalError, match="authentication: the catalog refused the credentials") as caught:
        listed(front.store(iceberg__rest__client_id="me", iceberg__rest__client_secret="hunter2"))
    assert "hunter2" not in caught.value.text()


def test_a_probe_needs_an_answer_and_no_token(front: Front) -> None:
    store = front.store(iceberg__rest__client_id="me", iceberg__rest__client_secret="hunter2")
    front.answers["/v1/config"] = (401, {})
    reach(store)
    front.answers["/v1/config"] = (503, {})
    with pytest.raises(ExternalError, match=store["uris"]):
        reach(store)
    assert [one[1:3] for one in front.seen] == [("/v1/config", None)] * 2


def test_names_are_no_paths(front: Front) -> None:
    with RestCatalog(front.store()) as catalog, pytest.raises(HeadraceError):
        catalog.load(("a", "b/../c"), "t?x=1#é")
    assert front.seen[-1][1] == "/v1/a/b%20c/namespaces/a%1Fb%2F..%2Fc/tables/t%3Fx%3D1%23%C3%A9"
