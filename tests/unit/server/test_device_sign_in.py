"""Sign-in by a device code: `headrace login --device` with a real provider, and the answers of a provider that refuses or delays."""

from __future__ import annotations

import asyncio
import time
import tomllib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from harness.openid import CLIENT, SECRET, OpenIdServer, enter_code_at
from harness.patience import PATIENCE_S
from harness.session import Session, open_session
from headrace.cli import profiles
from headrace.cli import session as command_line
from headrace.client import DeviceCode as ShownCode
from headrace.core.settings import Settings
from headrace.runtime.ports import free_port
from headrace.server import device_sign_in
from headrace.server.app import create_app
from headrace.server.device_sign_in import DeviceSignIns
from headrace.server.openid import DeviceCode, Identity, ProviderRefusedError, RefusedError
from headrace.server.ports import ServerParts
from tests.unit.cli.test_command_line import Ended, headrace
from tests.unit.server.scripted import serving
from tests.unit.server.test_mcp_oauth import Issuer

PEOPLE = {
    "anna": {"email": "Anna@x.org", "email_verified": True, "groups": ["engineers"]},
    "ben": {"email": "ben@x.org", "email_verified": True},
}
START, POLL = "/v2/session/device", "/v2/session/device/poll"


@pytest.fixture(scope="module")
def provider() -> Iterator[OpenIdServer]:
    with OpenIdServer(PEOPLE) as server:
        yield server


@asynccontextmanager
async def serve(folder: Path, port: int, issuer: str | None) -> AsyncIterator[Session]:
    async with open_session(folder / "data") as session:
        catalog = session.catalog
        catalog.create_role("analyst", "orgadmin")
        catalog.admit("anna@x.org", {}, create=True)
        provider: dict[str, Any] = {
            "oidc_issuer": issuer,
            "oidc_client_id": CLIENT,
            "oidc_client_secret": SECRET,
        }
        settings = Settings(
            data_dir=folder / "data", oidc_roles="engineers=analyst", **(provider if issuer else {})
        )
        parts = ServerParts(
            settings,
            session.service,
            catalog.authenticate,
            ended=catalog.ended,
            accounts=catalog,
            audit=catalog.audit.record,
        )
        async with serving(create_app(parts), port):
            yield session


@pytest.fixture
def served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str | None], AbstractAsyncContextManager[tuple[Session, int]]]:
    """A server of an issuer, whose sign-ins may be polled at once."""
    monkeypatch.setattr(device_sign_in, "INTERVAL_MIN_S", 0.01)
    monkeypatch.setattr(DeviceCode.model_fields["interval"], "default", 0.01)
    DeviceCode.model_rebuild(force=True)
    monkeypatch.setattr(profiles, "user_config_path", lambda _name: tmp_path / "config")

    @asynccontextmanager
    async def run(issuer: str | None) -> AsyncIterator[tuple[Session, int]]:
        port = free_port()
        async with serve(tmp_path, port, issuer) as session:
            yield session, port

    return run


async def login(
    port: int, monkeypatch: pytest.MonkeyPatch, enter: Callable[[ShownCode], Any] | None = None
) -> Ended:
    """Log in from a command line; `enter` is what the user does with the code."""
    shown: list[ShownCode] = []
    printed = command_line.show_device_code

    def show(code: ShownCode) -> None:
        printed(code)
        shown.append(code)

    monkeypatch.setattr(command_line, "show_device_code", show)
    running = asyncio.create_task(
        headrace(f"127.0.0.1:{port}", "login", "--device", "--no-keyring", token=None)
    )
    end = time.monotonic() + PATIENCE_S
    while not shown and not running.done():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)
    if enter is not None:
        await enter(shown[0])
    return await running


async def test_a_code_that_is_entered_in_a_browser_creates_a_token(
    provider: OpenIdServer, served: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with served(provider.uri) as (session, port):
        codes: list[ShownCode] = []

        async def enter(code: ShownCode) -> None:
            codes.append(code)
            await enter_code_at(code.direct or "", "anna")

        done = await login(port, monkeypatch, enter)
        assert done.code == 0, done.err
        assert codes[0].code in done.err
        assert codes[0].address in done.err
        assert codes[0].secret not in done.err
        profile = tomllib.loads((tmp_path / "config" / "config.toml").read_text())["profiles"]["default"]
        principal = session.catalog.authenticate(profile["token"])
        assert principal is not None
        assert (principal.user, principal.roles) == ("anna@x.org", ("analyst",))
        [signed_in] = [
            entry for _, entry in session.catalog.audit.read(100) if "device code" in str(entry.detail)
        ]
        assert (signed_in.outcome.value, signed_in.detail) == (
            "allowed",
            "single sign-on by a device code; roles given: analyst",
        )
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as http:
            again = await http.post(POLL, json={"device": codes[0].secret})
        assert again.status_code == 403


@pytest.mark.parametrize(
    ("name", "abort", "message"),
    [
        ("anna", True, "the sign-in was denied at the provider"),
        ("ben", False, "you are not a user of this server, and have no invitation"),
    ],
)
async def test_a_code_that_is_refused_creates_no_token(
    provider: OpenIdServer,
    served: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    name: str,
    abort: bool,
    message: str,
) -> None:
    async with served(provider.uri) as (session, port):
        done = await login(
            port, monkeypatch, lambda code: enter_code_at(code.direct or "", name, abort=abort)
        )
        assert (done.code, message in done.err) == (4, True), done.err
        assert session.catalog.api_tokens() == []
        assert session.catalog.user("ben@x.org") is None
        assert not (tmp_path / "config").exists()
        assert [entry.outcome.value for _, entry in session.catalog.audit.read(1)] == ["denied"]


async def test_a_server_without_such_a_provider_says_so(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    issuer = Issuer()
    expected = {
        None: "this server has no single sign-on",
        issuer.uri: "the provider does not support sign-in by a device code",
    }
    for address, message in expected.items():
        async with served(address) as (_, port):
            done = await login(port, monkeypatch)
            assert (done.code, message in done.err) == (1, True), (address, done)
    issuer.close()


async def test_an_address_starts_a_bounded_number_of_sign_ins(served: Any) -> None:
    async with (
        served("http://127.0.0.1:1") as (_, port),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as http,
    ):
        statuses = [(await http.post(START)).status_code for _ in range(device_sign_in.STARTS_FREE + 1)]
        assert statuses == [424] * device_sign_in.STARTS_FREE + [429]
        assert "session" not in str((await http.post(POLL, json={"device": "x"})).headers)


# --- a provider that delays and refuses


class Scripted:
    """Provider with given answers: an error, or None for a user who signed in."""

    def __init__(self, *answers: RefusedError | None, expires_in: float = 600) -> None:
        self.answers = list(answers)
        self.code = DeviceCode(
            device_code="secret",
            user_code="ABCD-EFGH",
            verification_uri="https://login.example.com/device",
            expires_in=expires_in,
            interval=5,
        )

    async def device_code(self) -> DeviceCode:
        return self.code

    async def device_identity(self, code: DeviceCode) -> Identity:
        assert code is self.code
        answer = self.answers.pop(0)
        if answer is not None:
            raise answer
        return Identity("anna@x.org")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let seconds pass."""
    now = [1000.0]
    monkeypatch.setattr(device_sign_in, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def pass_by(seconds: float) -> None:
        now[0] += seconds

    return pass_by


def answered(error: str) -> RefusedError:
    return ProviderRefusedError(400, error)


async def test_the_interval_is_kept_and_grows(clock: Callable[[float], None]) -> None:
    away = RefusedError("away", "the provider does not answer")
    provider = Scripted(answered("authorization_pending"), answered("slow_down"), away, None)
    sign_ins = DeviceSignIns(provider)
    started = await sign_ins.start()
    assert (started.interval, started.user_code) == (5, "ABCD-EFGH")
    assert "secret" not in str(started)
    intervals = []
    for seconds in (4, 1, 4, 1, 9, 1, 19):
        clock(seconds)
        intervals.append(await sign_ins.poll(started.device))
    # The provider was asked after 5 seconds, 5 more, and 10 more: three answers are used.
    assert (intervals, len(provider.answers)) == ([5, 5, 5, 10, 10, 20, 20], 1)
    clock(1)
    assert await sign_ins.poll(started.device) == Identity("anna@x.org")
    with pytest.raises(RefusedError) as used:
        await sign_ins.poll(started.device)
    assert used.value.code == "again"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (answered("access_denied"), "denied"),
        (answered("expired_token"), "again"),
        (answered("invalid_client"), "refused"),
        (RefusedError("unverified", "no address"), "unverified"),
    ],
)
async def test_a_refusal_ends_the_sign_in(
    clock: Callable[[float], None], answer: RefusedError, code: str
) -> None:
    sign_ins = DeviceSignIns(Scripted(answer, None))
    started = await sign_ins.start()
    for expected in (code, "again"):
        clock(5)
        with pytest.raises(RefusedError) as refused:
            await sign_ins.poll(started.device)
        assert refused.value.code == expected


async def test_a_code_expires_although_the_provider_forgets_it(clock: Callable[[float], None]) -> None:
    provider = Scripted(None, expires_in=30)
    sign_ins = DeviceSignIns(provider)
    started = await sign_ins.start()
    clock(30)
    for secret in (started.device, "unknown"):
        with pytest.raises(RefusedError) as refused:
            await sign_ins.poll(secret)
        assert refused.value.code == "again"
    assert provider.answers == [None]
