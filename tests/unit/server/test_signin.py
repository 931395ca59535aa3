"""Signing in to the page, over the real catalog."""

from __future__ import annotations

import datetime
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from headrace.catalog.catalog import Catalog
from headrace.catalog.objects import ApiToken, Invitation
from headrace.core.settings import Settings
from headrace.server import signin, throttle
from headrace.server.app import create_app
from headrace.server.middleware import DRAINED_OF_STRANGERS_BYTES_MAX
from headrace.server.ports import ServerParts
from tests.unit.server.scripted import ScriptedStatements

ORIGIN = "http://localhost:8080"
PASSWORD = "correct horse battery"
ANNA = {"user": "Anna@x.org", "password": PASSWORD}
NOW = datetime.datetime.now(datetime.UTC)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    opened = Catalog.open(tmp_path)
    code = opened.create_invitation(invitation("anna@x.org"))
    assert opened.accept_invitation(code, PASSWORD)
    yield opened
    opened.close()


@pytest.fixture
def app(catalog: Catalog, settings: Settings, statements: ScriptedStatements) -> FastAPI:
    return create_app(
        ServerParts(
            settings,
            statements,
            catalog.authenticate,
            ended=catalog.ended,
            accounts=catalog,
            audit=catalog.audit.record,
        )
    )


@pytest.fixture
async def page(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client like a browser: it keeps cookies, and sends the origin of a change."""
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url=ORIGIN, headers={"Origin": ORIGIN}
    ) as client:
        yield client


def invitation(user: str, lasts_s: int = 86_400) -> Invitation:
    end = NOW + datetime.timedelta(seconds=lasts_s)
    return Invitation(user, ("sysadmin", "useradmin"), "sysadmin", "admin", NOW, end)


async def is_signed_in(page: httpx.AsyncClient) -> bool:
    answer = await page.post("/v2/statements", json={"statement": "LIST STORES;"})
    assert answer.status_code in (200, 403)
    return answer.status_code == 200


async def test_a_password_begins_a_session_that_signing_out_ends(page: httpx.AsyncClient) -> None:
    assert not await is_signed_in(page)
    answer = await page.post("/v2/session", json=ANNA)
    assert (answer.status_code, answer.content) == (204, b"")
    cookie = answer.headers["set-cookie"].lower()
    assert all(word in cookie for word in ("httponly", "samesite=strict", "path=/v2"))
    assert "secure" not in cookie, "there is no TLS here"
    assert await is_signed_in(page)
    kept = dict(page.cookies)
    assert (await page.delete("/v2/session")).status_code == 204
    page.cookies.update(kept)
    assert not await is_signed_in(page), "the server forgot it, not only the browser"


async def test_over_tls_the_cookie_never_leaves_it(app: FastAPI) -> None:
    url = "https://localhost"
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url=url, headers={"Origin": url}
    ) as page:
        assert "secure" in (await page.post("/v2/session", json=ANNA)).headers["set-cookie"].lower()


async def test_a_session_is_for_our_own_page_only(page: httpx.AsyncClient) -> None:
    await page.post("/v2/session", json=ANNA)
    statement = {"statement": "DROP STORE s;"}
    for headers in ({"Origin": "http://localhost:9090"}, {"Origin": "null"}):
        assert (await page.post("/v2/statements", json=statement, headers=headers)).status_code == 403
    del page.headers["Origin"]
    assert (await page.post("/v2/statements", json=statement)).status_code == 403
    assert (await page.get("/v2/version")).status_code == 200


async def test_no_answer_reveals_whether_a_user_exists(page: httpx.AsyncClient) -> None:
    wrong = [{"user": user, "password": "wrong"} for user in ("anna@x.org", "admin", "nobody", "")]
    answers = [await page.post("/v2/session", json=given) for given in wrong]
    assert {(answer.status_code, answer.text) for answer in answers} == {
        (403, '{"message":"the user or the password is wrong"}')
    }


@pytest.mark.parametrize("user", ["anna@x.org", "nobody"])
async def test_who_guesses_waits(page: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, user: str) -> None:
    for _ in range(throttle.FREE_OF_USER):
        assert (await page.post("/v2/session", json={"user": user, "password": "wrong"})).status_code == 403
    hasty = await page.post("/v2/session", json={"user": user, "password": PASSWORD})
    assert hasty.status_code == 429
    assert int(hasty.headers["retry-after"]) >= 1
    later = throttle.time.monotonic() + throttle.FORGOTTEN_S
    monkeypatch.setattr(throttle.time, "monotonic", lambda: later)
    answer = await page.post("/v2/session", json={"user": user, "password": PASSWORD})
    assert answer.status_code == (204 if user == "anna@x.org" else 403)


@pytest.mark.parametrize("after_s", [3600, 12 * 3600])
async def test_a_session_ends_by_itself(
    page: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, after_s: int
) -> None:
    await page.post("/v2/session", json=ANNA)
    began = signin.time.monotonic()
    step_s = after_s if after_s == 3600 else 1800
    for passed in range(step_s, after_s, step_s):
        monkeypatch.setattr(signin.time, "monotonic", lambda at=began + passed: at)
        assert await is_signed_in(page), "it is in use"
    monkeypatch.setattr(signin.time, "monotonic", lambda: began + after_s + 1)
    assert not await is_signed_in(page)


async def test_a_session_ends_with_its_user_and_with_its_password(
    page: httpx.AsyncClient, catalog: Catalog
) -> None:
    user = catalog.user("anna@x.org")
    assert user is not None
    await page.post("/v2/session", json=ANNA)
    catalog.set_password(user, PASSWORD + " staple")
    assert not await is_signed_in(page)
    await page.post("/v2/session", json={**ANNA, "password": PASSWORD + " staple"})
    assert await is_signed_in(page)
    catalog.drop_user(user)
    assert not await is_signed_in(page)


async def test_who_is_invited_chooses_a_password_and_is_in(page: httpx.AsyncClient, catalog: Catalog) -> None:
    code = catalog.create_invitation(invitation("ben@x.org"))
    given = {"invitation": code, "password": "short"}
    answer = await page.post("/v2/session/invitation", json=given)
    assert answer.status_code == 400
    assert "12 to 256 characters" in answer.json()["message"]
    answer = await page.post("/v2/session/invitation", json={**given, "password": PASSWORD})
    assert answer.status_code == 204
    assert await is_signed_in(page)
    late = catalog.create_invitation(invitation("cleo@x.org", lasts_s=-1))
    for code in (given["invitation"], late, "hri_guessed"):
        answer = await page.post("/v2/session/invitation", json={"invitation": code, "password": PASSWORD})
        assert answer.status_code == 403


async def test_no_secret_is_logged_stored_or_returned(
    page: httpx.AsyncClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = [
        await page.post("/v2/session", json=ANNA),
        await page.post("/v2/session", json={"user": "anna@x.org", "password": f"{PASSWORD}?"}),
        await page.post("/v2/session", json={"user": "anna@x.org", "password": [PASSWORD]}),
        await page.post("/v2/session", json={"user": "x" * 300, "password": PASSWORD}),
        await page.post("/v2/session/invitation", json={"invitation": "hri_guessed", "password": PASSWORD}),
    ]
    session = page.cookies[signin.COOKIE]
    captured = capsys.readouterr()
    texts = [captured.out + captured.err, *(answer.text for answer in answers)]
    assert "sign_in_failed" in texts[0]
    for text in texts:
        assert PASSWORD not in text
        assert session not in text
        assert "hri_guessed" not in text
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert PASSWORD.encode() not in path.read_bytes()
            assert session.encode() not in path.read_bytes()


async def test_everything_else_needs_a_token_or_a_session(page: httpx.AsyncClient) -> None:
    for method, path in (
        ("DELETE", "/v2/session"),
        ("GET", "/v2/session"),
        ("POST", "/v2/sessions"),
        ("GET", "/metrics"),
    ):
        assert (await page.request(method, path)).status_code == 403, (method, path)
    assert (await page.get("/v2/version", headers={"Authorization": "Bearer wrong"})).status_code == 403


def audited(catalog: Catalog) -> list[tuple[str, str, str | None, str | None, int]]:
    entries = [entry for _, entry in catalog.audit.read(100)]
    assert {entry.address for entry in entries} == {"127.0.0.1"}
    return [
        (entry.event.value, entry.outcome.value, entry.user, entry.detail, entry.times) for entry in entries
    ]


async def test_signing_in_and_out_is_audited(page: httpx.AsyncClient, catalog: Catalog) -> None:
    # People type passwords where the user's name goes.
    await page.post("/v2/session", json={"user": "hunter2", "password": "wrong"})
    for _ in range(throttle.FREE_OF_USER + 1):
        await page.post("/v2/session", json={**ANNA, "password": "wrong"})
    await page.post("/v2/session/invitation", json={"invitation": "hri_x", "password": PASSWORD})
    code = catalog.create_invitation(invitation("ben@x.org"))
    await page.post("/v2/session/invitation", json={"invitation": code, "password": PASSWORD})
    await page.delete("/v2/session")
    assert audited(catalog) == [
        ("sign_in", "denied", None, "password", 1),
        ("sign_in", "denied", "anna@x.org", "password", throttle.FREE_OF_USER),
        ("sign_in", "denied", "anna@x.org", "throttled", 1),
        ("invitation", "denied", None, None, 1),
        ("invitation", "allowed", "ben@x.org", None, 1),
        ("sign_out", "allowed", "ben@x.org", None, 1),
    ]


async def test_a_refused_token_is_audited_by_its_name_and_never_itself(
    page: httpx.AsyncClient, catalog: Catalog
) -> None:
    token = ApiToken("ci", "anna@x.org", None, NOW, NOW, NOW)
    secret = catalog.create_api_token(token)
    for bearer in (secret, "hrt_unknown", "hrt_unknown"):
        headers = {"Authorization": f"Bearer {bearer}"}
        assert (await page.get("/v2/version", headers=headers)).status_code == 403
    assert audited(catalog) == [
        ("request", "denied", "anna@x.org", "GET /v2/version: not valid", 1),
        ("request", "denied", None, "not valid", 2),
    ]
    assert catalog.audit.read(2)[0][1].credential == "token ci"


async def test_a_large_body_of_a_stranger_is_not_read(page: httpx.AsyncClient) -> None:
    read = 0

    async def content(size: int) -> AsyncIterator[bytes]:
        nonlocal read
        for _ in range(size // 4096):
            read += 4096
            yield b"x" * 4096

    for headers in ({}, {"Content-Length": str(15 * 1024 * 1024)}):
        read = 0
        answer = await page.post(signin.PATH, content=content(15 * 1024 * 1024), headers=headers)
        assert answer.status_code == 400
        assert answer.json()["message"] == "the request is larger than 16384 bytes, the limit of this server"
        assert read < 1.1 * DRAINED_OF_STRANGERS_BYTES_MAX
