"""A broker with every kind of authentication, and the authorities and issuers behind it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.authority import Authority
from harness.issuer import Issuer
from harness.process import HeadraceProcess
from harness.secured_kafka import SecuredBroker
from headrace.testing.door import RestDoor


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="session")
def issuer(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    with Issuer(tmp_path_factory.mktemp("issuer"), authority) as issuer:
        yield issuer


@pytest.fixture(scope="session")
def broker(
    authority: Authority, issuer: Issuer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecuredBroker]:
    with SecuredBroker(tmp_path_factory.mktemp("secured"), authority, issuer=issuer) as broker:
        yield broker


@pytest.fixture
def door(headrace_server: HeadraceProcess) -> Iterator[RestDoor]:
    door = RestDoor(headrace_server)
    yield door
    door.close()
