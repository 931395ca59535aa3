"""Single sign-on with a real provider, and with a malicious provider."""

from __future__ import annotations

import datetime
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from harness.openid import CLIENT, ORIGIN, SECRET, OpenIdServer, sign_in_at
from harness.patience import PATIENCE_S
from headrace.catalog.catalog import Catalog
from headrace.catalog.objects import ApiToken, Invitation
from headrace.core.settings import Settings
from headrace.engine.engine import Engine
from headrace.server import openid
from headrace.server.app import create_app
from headrace.server.ports import ServerParts
from headrace.session import StatementService
from headrace.statements.base import Services
from tests.unit.server.scripted import ScriptedStatements

PEOPLE = {
    "anna": {"email": "Anna@x.org", "email_verified": True, "groups": ["engineers", "others"]},
    "ben": {"email": "ben@x.org", "email_verified": True},
    "eve": {"email": "anna@x.org", "email_verified": False},
}
START, BACK = "/v2/session/openid", "/v2/session/openid/callback"
NOW = datetime.datetime.now(datetime.UTC)


@pytest.fixture(scope="module")
def provider() -> Iterator[OpenIdServer]:
    with OpenIdServer(PEOPLE) as server:
        yield server


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    opened = Catalog.open(tmp_path)
    opened.create_role("analyst", "orgadmin")
    end = NOW + datetime.timedelta(days=1)
    opened.create_invitation(Invitation("anna@x.org", ("useradmin",), "useradmin", "admin", NOW, end))
    yield opened
    opened.close()


@pytest.fixture
def page_of(
    catalog: Catalog, tmp_path: Path, statements: ScriptedStatements, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., httpx.AsyncClient]:
    """A browser that shows the page of a server with some issuer, and more settings."""
    monkeypatch.setattr(openid, "TIMEOUT_S", PATIENCE_S)

    def make(issuer: str, service: StatementService | None = None, **more: Any) -> httpx.AsyncClient:
        settings = Settings(
            data_dir=tmp_path,
            oidc_issuer=issuer,
            oidc_client_id=CLIENT,
            oidc_client_secret=SECRET,
            oidc_roles="engineers=analyst,admins=orgadmin,nowhere=missing",
            **more,
        )
        parts = ServerParts(
            settings,
            service or statements,
            catalog.authenticate,
            ended=catalog.ended,
            accounts=catalog,
            audit=catalog.audit.record,
        )
        return httpx.AsyncClient(transport=httpx.ASGITransport(create_app(parts)), base_url=ORIGIN)

    return make


async def sent_away(page: httpx.AsyncClient) -> str:
    answer = await page.get(START)
    assert answer.status_code == 303
    cookie = answer.headers["set-cookie"].lower()
    assert all(word in cookie for word in ("httponly", "samesite=lax", f"path={START}"))
    return str(answer.headers["location"])


async def came_back(page: httpx.AsyncClient, url: str) -> str:
    answer = await page.get(url)
    assert answer.status_code == 303
    return str(answer.headers["location"])


async def is_signed_in(page: httpx.AsyncClient) -> bool:
    return (await page.get("/v2/version")).status_code == 200


def audited(catalog: Catalog) -> list[tuple[str, str | None, str | None]]:
    return [(entry.outcome.value, entry.user, entry.detail) for _, entry in catalog.audit.read(100)]


async def test_who_is_invited_signs_in_with_the_roles_of_the_groups(
    provider: OpenIdServer, page_of: Callable[..., httpx.AsyncClient], catalog: Catalog
) -> None:
    async with page_of(provider.uri, oidc_name="X") as page:
        assert (await page.get("/v2/session/provider")).json() == {"name": "X"}
        assert not await is_signed_in(page)
        assert await came_back(page, await sign_in_at(await sent_away(page), "anna")) == "/#signed-in"
        assert await is_signed_in(page)
        user = catalog.user("anna@x.org")
        assert user is not None
        assert (user.roles, user.default_role) == (("analyst", "useradmin"), "useradmin")
        assert audited(catalog)[-1] == ("allowed", "anna@x.org", "single sign-on; roles given: analyst")
        assert (await page.delete("/v2/session", headers={"Origin": ORIGIN})).status_code == 204
        assert not await is_signed_in(page)


async def test_the_session_of_a_user_who_is_gone_is_not_that_of_a_later_one(
    provider: OpenIdServer, page_of: Callable[..., httpx.AsyncClient], catalog: Catalog
) -> None:
    """The users have no passwords that could distinguish them."""
    async with page_of(provider.uri, oidc_create_users=True) as page:
        assert await came_back(page, await sign_in_at(await sent_away(page), "anna")) == "/#signed-in"
        assert await is_signed_in(page)
        user = catalog.user("anna@x.org")
        assert user is not None
        catalog.drop_user(user)
        again = catalog.admit("anna@x.org", {}, create=True)
        assert again is not None
        assert (again.user.name, again.user.password) == (user.name, None)
        assert not await is_signed_in(page)


async def test_nobody_else_does(
    provider: OpenIdServer, page_of: Callable[..., httpx.AsyncClient], catalog: Catalog
) -> None:
    async with page_of(provider.uri) as page:
        for name, code in (("ben", "unknown"), ("eve", "unverified")):
            back = await sign_in_at(await sent_away(page), name)
            assert await came_back(page, back) == f"/#not-signed-in={code}"
            assert not await is_signed_in(page)
    assert [outcome for outcome, _, _ in audited(catalog)[-2:]] == ["denied", "denied"]
    async with page_of(provider.uri, oidc_create_users=True) as page:
        assert await came_back(page, await sign_in_at(await sent_away(page), "ben")) == "/#signed-in"
    user = catalog.user("ben@x.org")
    assert user is not None
    assert (user.roles, user.password) == (("public",), None)


async def test_a_state_is_good_once_and_in_its_own_browser_and_leads_nowhere_else(
    provider: OpenIdServer, page_of: Callable[..., httpx.AsyncClient]
) -> None:
    async with page_of(provider.uri) as page:
        back = await sign_in_at(await sent_away(page), "anna")
        page.cookies.clear()
        assert await came_back(page, back) == "/#not-signed-in=again"
        back = await sign_in_at(await sent_away(page), "anna")
        kept = dict(page.cookies)
        assert await came_back(page, f"{back}&next=https://evil.example&redirect_uri=//evil") == "/#signed-in"
        page.cookies.clear()
        page.cookies.update(kept)
        assert await came_back(page, back) == "/#not-signed-in=again"
        page.cookies.clear()
        # The code of one sign-in with the state of another: its verifier is another's.
        code = parse_qs(urlsplit(await sign_in_at(await sent_away(page), "anna")).query)["code"][0]
        state = parse_qs(urlsplit(await sent_away(page)).query)["state"][0]
        assert await came_back(page, f"{BACK}?code={code}&state={state}") == "/#not-signed-in=refused"
        state = parse_qs(urlsplit(await sent_away(page)).query)["state"][0]
        assert await came_back(page, f"{BACK}?error=access_denied&state={state}") == "/#not-signed-in=refused"
        assert await came_back(page, BACK) == "/#not-signed-in=again"
        page.cookies.clear()
        assert not await is_signed_in(page)


async def test_groups_give_and_take_roles_but_not_the_last_orgadmin(
    page_of: Callable[..., httpx.AsyncClient], catalog: Catalog
) -> None:
    with OpenIdServer({"anna": {**PEOPLE["anna"], "groups": ["admins"]}}) as provider:
        async with page_of(provider.uri) as page:
            assert await came_back(page, await sign_in_at(await sent_away(page), "anna")) == "/#signed-in"
            user, admin = catalog.user("anna@x.org"), catalog.user("admin")
            assert user is not None
            assert admin is not None
            assert user.roles == ("orgadmin", "useradmin")
            catalog.drop_user(admin)
            # Started again it has another key, and tells claims when asked only.
            provider.stop()
            provider.people["anna"] = PEOPLE["anna"]
            provider.when_asked = True
            provider.start()
            assert await came_back(page, await sign_in_at(await sent_away(page), "anna")) == "/#signed-in"
            user = catalog.user("anna@x.org")
            assert user is not None
            assert user.roles == ("analyst", "orgadmin", "useradmin")
            assert (
                audited(catalog)[-1][2]
                == "single sign-on; roles given: analyst; roles left unchanged: orgadmin"
            )


async def test_who_loses_a_group_keeps_its_role_in_no_session_and_no_token(
    page_of: Callable[..., httpx.AsyncClient], catalog: Catalog, tmp_path: Path
) -> None:
    given = Settings(data_dir=tmp_path)
    service = StatementService(Services(catalog, Engine(catalog, given), given))
    with OpenIdServer({"anna": PEOPLE["anna"]}) as provider:
        async with page_of(provider.uri, service=service) as page:

            async def as_analyst(**headers: str) -> str:
                """The SQLSTATE, or the status of what is no statement's answer."""
                body = {"statement": "LIST DATABASES", "role": "analyst"}
                answer = await page.post("/v2/statements", json=body, headers={"Origin": ORIGIN, **headers})
                return str(answer.json().get("sqlState", answer.status_code))

            assert await came_back(page, await sign_in_at(await sent_away(page), "anna")) == "/#signed-in"
            end = NOW + datetime.timedelta(days=1)
            tokens = {
                role: {
                    "Authorization": "Bearer "
                    + catalog.create_api_token(ApiToken(f"of {role}", "anna@x.org", role, NOW, NOW, end))
                }
                for role in ("analyst", None)
            }
            asking = [{}, *tokens.values()]
            assert [await as_analyst(**headers) for headers in asking] == ["00000"] * 3
            signed_in_by = catalog.authenticate(tokens["analyst"]["Authorization"].split()[1])
            assert signed_in_by is not None
            old = dict(page.cookies)
            provider.stop()
            provider.people["anna"] = {**PEOPLE["anna"], "groups": ["others"]}
            provider.start()
            page.cookies.clear()
            # Until she signs in again nobody has asked the provider.
            assert await as_analyst(**tokens["analyst"]) == "00000"
            assert await came_back(page, await sign_in_at(await sent_away(page), "anna")) == "/#signed-in"
            assert audited(catalog)[-1][2] == "single sign-on; roles taken: analyst"
            assert [await as_analyst(**headers) for headers in asking] == ["42501", "403", "42501"]
            page.cookies.clear()
            page.cookies.update(old)
            assert await as_analyst() == "42501"
            assert "roles of the user 'anna@x.org' were changed" in str(catalog.ended(signed_in_by))


# --- one that lies


class Liar:
    """Provider that returns any given token."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.token, self.status = "", 200
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.uri = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, path: str) -> tuple[int, object]:
        if path.startswith("/.well-known"):
            places = {
                name: f"{self.uri}/{name}"
                for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")
            }
            return 200, {"issuer": self.uri, **places}
        if path == "/jwks_uri":
            public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
            return 200, {"keys": [{**public, "kid": "1", "use": "sig"}]}
        return self.status, {"id_token": self.token, "access_token": "a", "token_type": "Bearer"}

    def _handler(liar) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - the handler has a self of its own
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                # Closed with unread data, a connection may be reset before the answer is read.
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, body = liar._answer(self.path)
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", f"{liar.uri}/elsewhere")
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            do_POST = do_GET  # noqa: N815 - its name

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


@pytest.fixture
async def liar() -> AsyncIterator[Liar]:
    made = Liar()
    yield made
    made.close()


LIES: dict[str, dict[str, object]] = {
    "another issuer": {"iss": "https://evil.example"},
    "for another": {"aud": "other"},
    "for another, too": {"aud": [CLIENT, "other"], "azp": "other"},
    "another nonce": {"nonce": "x"},
    "no nonce": {"nonce": None},
    "expired": {"exp": 1},
    "no end": {"exp": None},
    "unverified": {"email_verified": "true"},
    "no address": {"email": "anna"},
    "not signed": {"alg": "none"},
    "signed by the client's secret": {"alg": "HS256"},
    "another key": {"alg": "other"},
    "no token": {"alg": "garbage"},
    "elsewhere": {"status": 302},
}


@pytest.mark.parametrize("lie", [None, *LIES])
async def test_a_providers_claims_are_accepted_only_if_all_are_valid(
    liar: Liar, page_of: Callable[..., httpx.AsyncClient], catalog: Catalog, lie: str | None
) -> None:
    async with page_of(liar.uri) as page:
        asked = {name: value[0] for name, value in parse_qs(urlsplit(await sent_away(page)).query).items()}
        assert (asked["code_challenge_method"], asked["response_type"]) == ("S256", "code")
        given = LIES[lie] if lie is not None else {}
        claims = {"iss": liar.uri, "sub": "1", "aud": CLIENT, "nonce": asked["nonce"]}
        claims |= {"iat": int(time.time()), "exp": int(time.time()) + 60}
        claims |= {"email": "anna@x.org", "email_verified": True}
        claims = {name: value for name, value in {**claims, **given}.items() if value is not None}
        algorithm, _ = claims.pop("alg", "RS256"), claims.pop("status", None)
        keys: dict[object, tuple[Any, str | None]] = {
            "RS256": (liar.key, "RS256"),
            "none": (None, None),
            "HS256": (SECRET.ljust(32), "HS256"),
            "other": (rsa.generate_private_key(public_exponent=65537, key_size=2048), "RS256"),
        }
        liar.status = 302 if "status" in given else 200
        liar.token = (
            jwt.encode(claims, *keys[algorithm], headers={"kid": "1"}) if algorithm in keys else "a.b.c"
        )
        location = await came_back(page, f"{BACK}?code=c&state={asked['state']}")
        if lie is None:
            assert location == "/#signed-in"
            return
        assert location.startswith("/#not-signed-in=")
        assert not await is_signed_in(page)
        assert catalog.user("anna@x.org") is None
        [(outcome, _, detail)] = [entry for entry in audited(catalog) if "single sign-on" in str(entry[2])]
        assert outcome == "denied"
        assert SECRET not in str(detail)


async def test_a_provider_that_is_away_lets_nobody_in(page_of: Callable[..., httpx.AsyncClient]) -> None:
    async with page_of("http://127.0.0.1:1") as page:
        answer = await page.get(START)
        assert (answer.status_code, answer.headers["location"]) == (303, "/#not-signed-in=away")
