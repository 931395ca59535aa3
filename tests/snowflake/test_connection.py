"""Every way to sign in, errors with the failed step, and data that a server must never receive."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from harness.snowflake import PASSPHRASE, ROLE, TOKEN, SnowflakeServer
from headrace.connectors.snowflake import admin
from headrace.connectors.snowflake.client import Snowflake
from headrace.core.errors import ExternalError, HeadraceError
from tests.snowflake.conftest import store_of


@contextmanager
def answering(*answers: dict[str, Any] | str) -> Iterator[str]:
    """Yield the address of a server that sends these answers in turn and then repeats the last."""
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"] or 0))
            answer = left.pop(0) if len(left) > 1 else left[0]
            body = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def refused(store: dict[str, str]) -> HeadraceError:
    with pytest.raises(HeadraceError) as caught:
        admin.test(store)
    assert caught.value.hint
    return caught.value


def test_a_user_signs_in_by_password_key_or_token(snowflake: SnowflakeServer) -> None:
    ways = (
        {},
        {"snowflake__role_name": ROLE, "snowflake__warehouse_name": "WH"},
        {"snowflake__client__key_file": snowflake.key, "snowflake__client__key_passphrase": PASSPHRASE},
        {"snowflake__token": TOKEN},
        {"snowflake__token": TOKEN, "snowflake__token__type": "OAuth"},
    )
    for way in ways:
        admin.test(store_of(uris=snowflake.uri, **way))


def test_the_step_that_failed_is_named(snowflake: SnowflakeServer, tmp_path: Path) -> None:
    other = SnowflakeServer(tmp_path)
    key = {"snowflake__client__key_file": other.key, "snowflake__client__key_passphrase": PASSPHRASE}
    cases: dict[str, dict[str, str]] = {
        "authentication: .* refused the store's user": {"snowflake__password": "hunter2"},
        "authentication: .* refused the user's key": key,
        "authentication: .* refused the store's token": {"snowflake__token": "hunter2"},
        "authentication: .* refused the role to the user": {"snowflake__role_name": "ACCOUNTADMIN"},
    }
    for expected, differs in cases.items():
        error = refused(store_of(**{"uris": snowflake.uri, **differs}))
        assert pytest.RaisesExc(ExternalError, match=expected).matches(error), (expected, error.message)
        assert "hunter2" not in error.text()


def test_every_server_other_than_snowflake_causes_the_same_error() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{unused.getsockname()[1]}"
        assert "did not answer as Snowflake" in refused(store_of(uris=closed)).message
    for answer in ("<html>", "[]", '{"success": true, "data": {}}'):
        with answering(answer) as uri:
            assert "did not answer as Snowflake" in refused(store_of(uris=uri)).message, answer


def test_a_server_gets_no_file_of_this_machine_and_writes_none(tmp_path: Path) -> None:
    secret, target = tmp_path / "secret", tmp_path / "target"
    secret.write_text("hunter2")
    target.mkdir()
    stage = {"locationType": "LOCAL_FS", "location": f"{target}/", "creds": {}}
    login = {"success": True, "data": {"token": "t", "masterToken": "m", "parameters": [], "sessionInfo": {}}}
    upload = {"command": "UPLOAD", "src_locations": [str(secret)], "stageInfo": stage, "autoCompress": False}
    download = {
        "command": "DOWNLOAD",
        "src_locations": ["secret"],
        "stageInfo": {**stage, "location": f"{tmp_path}/"},
        "localLocation": str(target),
        "encryptionMaterial": [],
    }
    for asked in (upload, download):
        with answering(login, {"success": True, "data": asked}) as uri:
            store = store_of(uris=uri)
            with (
                Snowflake(store) as session,
                pytest.raises(ExternalError, match="did not answer as Snowflake"),
            ):
                session.execute("SELECT 1")
            with Snowflake(store) as session, secret.open("rb") as ours, pytest.raises(ExternalError):
                session.put(ours, "x.parquet", "@%X/1")
        assert list(target.iterdir()) == []
