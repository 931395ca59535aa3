"""A PostgreSQL store's properties, hostile ones too."""

from __future__ import annotations

import pytest

from harness.authority import Authority
from headrace.connectors.addresses import Database
from headrace.connectors.postgresql.options import PROPERTIES, address, read_path, read_store
from headrace.core.errors import UserError
from headrace.core.properties import PropertyReader, Scope, masked, of_scope, stored

NEEDED = {"uris": "postgresql://h:5433/shop", "postgres.username": "u", "postgres.password": "hunter2"}
PEM = "-----BEGIN CERTIFICATE-----\nx"
KEY, _, _REST = Authority().key_and_certificate("app").decode().partition("-----BEGIN CERT")
CERTIFICATE = f"-----BEGIN CERT{_REST}"


def read(**given: str) -> dict[str, str]:
    texts = {**NEEDED, **{name.replace("__", "."): value for name, value in given.items()}}
    return read_store(PropertyReader(stored(texts), of_scope(PROPERTIES, Scope.STORE), what="property"))


def test_a_store_uses_tls_by_default() -> None:
    assert read() == {**NEEDED, "tls.disabled": "FALSE", "tls.verify_server_hostname": "TRUE"}
    assert read(tls__disabled="true")["tls.disabled"] == "TRUE"


@pytest.mark.parametrize(
    ("uris", "expected"),
    [
        ("postgresql://h/shop", Database("h", 5432, "shop")),
        (" postgres://db.example.com:15432/My%20Shop ", Database("db.example.com", 15432, "My Shop")),
        ("postgresql://[::1]:5432/shop", Database("::1", 5432, "shop")),
        ("postgresql://h/shop?param=value&connect_timeout=5", Database("h", 5432, "shop")),
        ("postgresql://h/shop?", Database("h", 5432, "shop")),
    ],
)
def test_an_address_is_host_port_and_database(uris: str, expected: Database) -> None:
    assert address(uris) == expected


@pytest.mark.parametrize(
    "uris",
    [
        "h:5432/shop",
        "postgresql://h:5432",
        "postgresql://h:5432/",
        "postgresql:///shop",
        "postgresql://h:0x1/shop",
        "postgresql://h:99999/shop",
        "postgresql://u:hunter2@h/shop",
        "postgresql://h/shop?host=/var/run/postgresql",
        "postgresql://h/shop?sslkey=/etc/shadow",
        "postgresql://h/shop?param=value&user=u&password=hunter2",
        "postgresql://h/shop?sslmode=none",
        "postgresql://h/shop?sslmode=require#x",
        "postgresql://h/shop?application_name=a b",
        "postgresql://h/shop?a=%00",
        "postgresql://h?x=/shop",
        "postgresql://h/shop#x",
        "postgresql://h/shop/t",
        "postgresql://h/shop%00x",
        "postgresql://%2Fvar%2Frun/shop",
        "postgresql://h,i/shop",
        "file:///etc/passwd",
        "http://169.254.169.254/shop",
    ],
)
def test_an_address_is_nothing_else(uris: str) -> None:
    with pytest.raises(UserError) as caught:
        read(uris=uris)
    assert caught.value.state.value == "3D008"
    assert "hunter2" not in caught.value.text()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"tls__ca_cert_file": "/etc/passwd"}, "PEM text of a certificate"),
        (
            {"tls__client__key_file": "/etc/shadow"},
            "must be the PEM text of a private key .*, found \\*\\*\\*\\*",
        ),
        ({"tls__client__cert_file": PEM}, "expected the PEM text of a certificate"),
        ({"tls__client__cert_file": CERTIFICATE}, "must be specified together"),
        ({"tls__client__key_file": KEY}, "must be specified together"),
        ({"tls__verify_server_hostname": "false"}, "specifies the authorities to trust"),
        (
            {"uris": "postgresql://h/shop?sslmode=disable"},
            "'tls.disabled' must be TRUE beside the sslmode of 'uris'",
        ),
        (
            {"uris": "postgresql://h/shop?sslmode=require", "tls__disabled": "true"},
            "must be FALSE beside the sslmode",
        ),
        ({"sslmode": "disable"}, "has no property"),
        ({"options": "-c x=y"}, "has no property"),
    ],
)
def test_what_is_wrong_is_said(given: dict[str, str], words: str) -> None:
    with pytest.raises(UserError, match=words):
        read(**given)


def test_an_address_is_kept_with_its_parameters() -> None:
    uris = "postgresql://h/shop?sslmode=disable&param=value"
    assert read(uris=uris, tls__disabled="true", tls__verify_server_hostname="false")["uris"] == uris
    assert read(uris="postgresql://h/shop?sslmode=verify-full")["tls.disabled"] == "FALSE"


def test_secrets_are_masked() -> None:
    shown = masked(read(tls__client__cert_file=CERTIFICATE, tls__client__key_file=KEY), PROPERTIES, {})
    assert shown["postgres.password"] == shown["tls.client.key_file"] == "****"


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({}, ("public", "r")),
        ({"postgresql.schema.name": "S", "postgresql.table.name": "T"}, ("S", "T")),
        ({"postgresql.db.name": "d"}, ("d", "public", "r")),
    ],
)
def test_a_relation_is_over_a_table(given: dict[str, str], path: tuple[str, ...]) -> None:
    reader = PropertyReader(stored(given), of_scope(PROPERTIES, Scope.RELATION), what="property")
    assert read_path(reader, "r") == path
