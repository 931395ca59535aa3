"""Sign-in by SCRAM-SHA-256, with libpq as the client."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from headrace.catalog.catalog import Catalog
from headrace.catalog.scram import ITERATIONS, derived
from headrace.server.postgres import messages
from tests.clients.postgres.served import PASSWORD, TOKEN, Served, serving
from tests.clients.postgres.test_protocol import raw, sent, startup


@pytest.fixture(scope="module")
def scram(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("scram") / "data", postgres_scram=True) as served:
        yield served


def connected(served: Served, secret: str, *, user: str = "admin") -> psycopg.Connection:
    """A connection of a client that sends no password to a server, whatever the server asks for."""
    address = f"host=127.0.0.1 port={served.port} dbname=shop require_auth=scram-sha-256"
    return psycopg.connect(address, user=user, password=secret, autocommit=True)


@pytest.mark.parametrize("secret", [TOKEN, PASSWORD])
def test_a_token_and_a_password_are_proven_and_not_sent(scram: Served, secret: str) -> None:
    with connected(scram, secret) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    entry = scram.audited[-1]
    assert (entry.outcome.value, entry.user) == ("allowed", "admin")
    assert entry.credential == ("password" if secret == PASSWORD else "token administrator")


@pytest.mark.parametrize(
    ("user", "secret"), [("admin", "wrong"), ("nobody", PASSWORD), ("admin", "hrt_wrong")]
)
def test_a_wrong_secret_is_refused(scram: Served, user: str, secret: str) -> None:
    with pytest.raises(psycopg.OperationalError, match="is wrong"):
        connected(scram, secret, user=user)
    entry = scram.audited[-1]
    assert (entry.outcome.value, entry.user) == ("denied", "admin" if user == "admin" else None)


def test_a_password_is_normalized_as_clients_do(scram: Served) -> None:
    user = scram.session.catalog.user("admin")
    assert user is not None
    try:
        scram.session.catalog.set_password(user, "correct\u00a0\u2168 horse\u00ad battery")
        connected(scram, "correct IX horse battery").close()
        connected(scram, "correct\u00a0\u2168 horse\u00ad battery").close()
    finally:
        scram.session.catalog.set_password(user, PASSWORD)


def test_a_connection_ends_with_its_secret(scram: Served) -> None:
    with connected(scram, TOKEN) as administrator:
        created = administrator.execute(
            "CREATE API_TOKEN short WITH ('token.role_name' = sysadmin)"
        ).fetchone()
        secret = next(str(value) for value in created or () if str(value).startswith("hrt_"))
        with connected(scram, secret) as other:
            administrator.execute("ALTER API_TOKEN short")
            with pytest.raises(psycopg.OperationalError, match="no longer valid"):
                other.execute("SELECT 1")
        administrator.execute("DROP API_TOKEN short")


def test_a_password_may_be_guessed_a_few_times_only(tmp_path: Path) -> None:
    with serving(tmp_path / "data", postgres_scram=True) as served:
        for _ in range(5):
            with pytest.raises(psycopg.OperationalError, match="is wrong"):
                connected(served, "guess")
        with pytest.raises(psycopg.OperationalError, match="too many wrong passwords"):
            connected(served, PASSWORD)
        # A token cannot be guessed, so that it is accepted meanwhile.
        connected(served, TOKEN).close()


def test_a_secret_from_before_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with serving(tmp_path / "data", postgres_scram=True) as served:
        user = served.session.catalog.user("admin")
        assert user is not None
        served.session.catalog.scram._is_kept = False
        served.session.catalog.set_password(user, "another correct horse")
        with pytest.raises(psycopg.OperationalError, match="set before HEADRACE_POSTGRES_SCRAM"):
            connected(served, "another correct horse")


def test_unknown_users_are_asked_like_known_ones(scram: Served) -> None:
    def challenge(user: str) -> str:
        with raw(scram, signs_in=False) as client:
            client.socket.sendall(startup({"user": user, "database": "shop"}))
            assert client.message() == (b"R", struct.pack("!I", messages.SASL) + b"SCRAM-SHA-256\0\0")
            first = b"n,,n=,r=abc"
            client.socket.sendall(sent(b"p", b"SCRAM-SHA-256\0" + struct.pack("!I", len(first)) + first))
            return client.message()[1][4:].decode()

    known, unknown = challenge("admin"), challenge("nobody")
    assert {text.rpartition(",")[2] for text in (known, unknown)} == {f"i={ITERATIONS}"}
    assert [len(text) for text in (known, unknown)] == [len(known)] * 2
    salts = [text.split(",")[1] for text in (unknown, challenge("nobody"), known)]
    assert salts[0] == salts[1] != salts[2]


@pytest.mark.parametrize(
    "first",
    [b"p=tls-unique,,n=,r=abc", b"n,,n=", b"n,", b"", b"\xff\xfe", b"n,,r="],
)
def test_messages_that_are_not_of_scram_end_the_connection(scram: Served, first: bytes) -> None:
    with raw(scram, signs_in=False) as client:
        client.socket.sendall(startup({"user": "admin", "database": "shop"}))
        client.message()
        client.socket.sendall(sent(b"p", b"SCRAM-SHA-256\0" + struct.pack("!I", len(first)) + first))
        kind, body = client.message()
        assert (kind, b"C08P01\0" in body) == (b"E", True)
        assert client.message() == (b"", b"")


@pytest.mark.parametrize("change", ["nonce", "header", "proof", "no base64", "short"])
def test_a_changed_final_message_is_refused(scram: Served, change: str) -> None:
    with raw(scram, signs_in=False) as client:
        client.socket.sendall(startup({"user": "admin", "database": "shop"}))
        client.message()
        first = b"n,,n=,r=abc"
        client.socket.sendall(sent(b"p", b"SCRAM-SHA-256\0" + struct.pack("!I", len(first)) + first))
        nonce = client.message()[1][4:].decode().split(",")[0]
        final = {
            "nonce": f"c=biws,r=abc,p={'A' * 43}=",
            "header": f"c=eSws,{nonce},p={'A' * 43}=",
            "proof": f"c=biws,{nonce},p={'A' * 43}=",
            "no base64": f"c=biws,{nonce},p=%%%",
            "short": f"c=biws,{nonce},p=AAAA",
        }[change]
        client.socket.sendall(sent(b"p", final.encode()))
        kind, body = client.message()
        state = "28P01" if change in ("proof", "short") else "08P01"
        assert (kind, f"C{state}\0".encode() in body) == (b"E", True)


def test_verifiers_are_encrypted_and_outlive_another_key(tmp_path: Path) -> None:
    with serving(tmp_path / "data", postgres_scram=True) as served:
        catalog = served.session.catalog
        content = b"".join(path.read_bytes() for path in (tmp_path / "data").glob("catalog.db*"))
        keys = derived(PASSWORD, catalog.scram.salt("admin"))
        assert keys[:32] not in content
        assert keys[32:] not in content
        catalog.rotate_key()
        for secret in (TOKEN, PASSWORD):
            connected(served, secret).close()


def test_without_the_setting_no_verifier_is_kept(tmp_path: Path) -> None:
    catalog = Catalog.open(tmp_path)
    catalog.ensure_administrator(TOKEN)
    user = catalog.user("admin")
    assert user is not None
    catalog.set_password(user, PASSWORD)
    assert catalog.scram.of("admin") == []
    catalog.close()
