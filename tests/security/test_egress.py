"""Allowed addresses of users: the operator's rules, and the addresses that no rule allows."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from pydantic import ValidationError

from harness.registry_front import RegistryFront
from headrace.connectors.egress import Egress
from headrace.connectors.schema_registry.client import RegistryClient
from headrace.core.errors import ExternalError, UserError
from headrace.core.settings import Settings
from headrace.core.sqlstate import SqlState

EVERYTHING = Egress(("loopback", "private", "public", "0.0.0.0/0", "::/0", "*.example.com"))


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "2852039166",  # the same as one number
        "0xa9fea9fe",
        "0251.0376.0251.0376",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::1",
        "fd00:ec2::254",
        "fe80::1",
        "100.100.100.200",
        "0.0.0.0",  # noqa: S104
        "0",
        "::",
        "224.0.0.1",
        "255.255.255.255",
        "ff02::1",
    ],
)
def test_some_addresses_are_refused_whatever_is_allowed(host: str) -> None:
    with pytest.raises(UserError) as caught:
        EVERYTHING.addresses(host, 80)
    assert caught.value.state is SqlState.INVALID_PARAMETER
    with pytest.raises(UserError):
        EVERYTHING.check([f"b.invalid:1,[{host}]:80" if ":" in host else f"b.invalid:1,{host}:80"])


@pytest.mark.parametrize(
    ("allowed", "reached", "refused"),
    [
        (("loopback",), ["127.0.0.1", "127.8.9.1", "::1", "localhost", "::ffff:127.0.0.1"], ["10.0.0.1", "8.8.8.8"]),
        (("private",), ["10.0.0.1", "192.168.1.1", "100.64.0.1", "fd12::1"], ["127.0.0.1", "8.8.8.8", "2600::1"]),
        (("public",), ["8.8.8.8", "2600::1"], ["127.0.0.1", "10.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1"]),
        (("10.1.0.0/16",), ["10.1.2.3", "::ffff:10.1.2.3"], ["10.2.0.1", "127.0.0.1"]),
        ((), [], ["127.0.0.1", "8.8.8.8"]),
    ],
)  # fmt: skip
def test_what_is_not_allowed_is_refused(
    allowed: tuple[str, ...], reached: list[str], refused: list[str]
) -> None:
    egress = Egress(allowed)
    for host in reached:
        assert egress.addresses(host, 80)
    for host in refused:
        with pytest.raises(UserError):
            egress.addresses(host, 80)


def resolving(answers: dict[str, list[str]]) -> Any:
    """A name server of the attacker's, or of the company's."""
    asked = socket.getaddrinfo

    def look_up(host: str, *others: Any, **named: Any) -> Any:
        if host not in answers:
            return asked(host, *others, **named)
        return asked(answers[host].pop(0), *others, **named)

    return look_up


def test_a_name_is_trusted_where_it_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("kafka.example.com", "example.com", "evil-example.com", "metadata.example.com")
    addresses = dict.fromkeys(names, "10.9.9.9") | {"metadata.example.com": "169.254.169.254"}
    monkeypatch.setattr(
        socket, "getaddrinfo", resolving({name: [address] for name, address in addresses.items()})
    )
    egress = Egress(("*.example.com",))
    assert egress.addresses("kafka.example.com", 1) == ["10.9.9.9"]
    for host in names[1:]:
        with pytest.raises(UserError):
            egress.addresses(host, 1)


def test_a_name_that_resolves_elsewhere_a_second_time_gains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection uses the checked address."""
    with RegistryFront(answer=lambda _path: (200, {}, b"[]")) as front:
        url = front.url("rebound.example")
        monkeypatch.setattr(
            socket, "getaddrinfo", resolving({"rebound.example": ["127.0.0.1", "169.254.169.254"]})
        )
        client = RegistryClient({"uris": url}, Egress())
        client.test()
        assert front.hosts == [url.removeprefix("http://")]
        with pytest.raises(UserError):
            client.test()


def test_an_unknown_host_leads_nowhere() -> None:
    with pytest.raises(ExternalError) as caught:
        Egress().addresses("nowhere.invalid", 1)
    assert caught.value.state is SqlState.REMOTE_UNAVAILABLE
    Egress(()).check(["nowhere.invalid:1", "https://nowhere.invalid/x"])


@pytest.mark.parametrize(
    "text",
    [
        "169.254.169.254:9092",
        "b.invalid:9092, 169.254.169.254:9092",
        "http://169.254.169.254/latest",
        "postgresql://u@169.254.169.254:5432/db",
        "postgresql://b.invalid:1,169.254.169.254:5432/db",
        "HTTPS://[fd00:ec2::254]:443",
    ],
)
def test_hosts_are_found_in_any_form_of_address(text: str) -> None:
    with pytest.raises(UserError):
        Egress().check([text])


def test_the_setting_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings().egress_allowed == ("loopback", "private", "public")
    monkeypatch.setenv("HEADRACE_EGRESS_ALLOWED", "Public, 10.1.0.0/16 ,*.Example.com")
    assert Settings().egress_allowed == ("public", "10.1.0.0/16", "*.example.com")
    for wrong in ("10.1.0.0/99", "http://x", "a b"):
        monkeypatch.setenv("HEADRACE_EGRESS_ALLOWED", wrong)
        with pytest.raises(ValidationError):
            Settings()
