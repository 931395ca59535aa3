"""A server with a certificate of an authority of one's own, and clients that trust it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.authority import Authority
from harness.process import HeadraceProcess


@pytest.fixture(scope="session")
def authority() -> Authority:
    """Return an authority that nobody trusts yet."""
    return Authority()


@pytest.fixture(scope="session")
def https_server(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadraceProcess]:
    """A real `headrace up` at https://localhost, shared by the tests that do not kill it."""
    folder = tmp_path_factory.mktemp("https")
    (folder / "server.pem").write_bytes(authority.key_and_certificate("localhost"))
    process = HeadraceProcess(folder / "data")
    process.start(HEADRACE_TLS_CERT=str(folder / "server.pem"))
    assert process.url.startswith("https://127.0.0.1:")
    process.url = process.url.replace("127.0.0.1", "localhost")
    yield process
    process.stop()


@pytest.fixture
def trusted(authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients of this test believe the authority, and who is started from it."""
    (tmp_path / "authority.pem").write_text(authority.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
