"""Errors of each failed step of connecting, without secrets."""

from __future__ import annotations

import sys

import pytest

from harness.authority import Authority
from harness.databricks import CLIENT, SECRET, TOKEN, Workspace
from harness.kinesis import SECRET_KEY
from headrace.connectors.databricks import admin
from headrace.connectors.databricks.failures import of_status
from headrace.connectors.databricks.spark import probe, secrets
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.sqlstate import SqlState
from tests.databricks.conftest import store_of

pytestmark = [pytest.mark.spark]


def refused(store: dict[str, str]) -> HeadraceError:
    with pytest.raises(HeadraceError) as caught:
        admin.test(store)
    assert caught.value.hint
    for secret in (TOKEN, SECRET, SECRET_KEY, *secrets(store)):
        assert secret not in caught.value.text()
    return caught.value


def test_the_step_that_failed_is_named(databricks: Workspace, store: dict[str, str]) -> None:
    admin.test(store)
    tls = {
        "uris": "https://localhost",
        "tls.disabled": "FALSE",
        "databricks.warehouse_port": str(databricks.front.tls_port),
        "tls.ca_cert_file": databricks.front.authority.pem,
    }
    admin.test(store_of(databricks, **tls))
    client = {"databricks.app_token": None, "databricks.oauth.client_id": CLIENT}
    admin.test(store_of(databricks, **client, **{"databricks.oauth.client_secret": SECRET}, **tls))
    cases: dict[str, dict[str, str | None]] = {
        "DNS: the host 'no.such.host.invalid' is not known": {"uris": "http://no.such.host.invalid"},
        "network: there is no connection to 127.0.0.1:1$": {"databricks.warehouse_port": "1"},
        "TLS: .*127.0.0.1:": {**tls, "uris": "https://127.0.0.1"},
        "TLS: .*certificate": {**tls, "tls.ca_cert_file": Authority().pem},
        "TLS: .*not speak TLS": {**tls, "databricks.warehouse_port": str(databricks.front.port)},
        "authentication: .* refused": {"databricks.app_token": "hunter2"},
        "authentication: .* refused the": {**client, "databricks.oauth.client_secret": "hunter2"},
        "warehouse: .* no such SQL warehouse": {"databricks.warehouse_id": "other"},
        "bucket: the bucket 'nowhere' does not exist": {"databricks.cloud.s3.bucket": "nowhere"},
    }
    for expected, differs in cases.items():
        error = refused(store_of(databricks, **differs))
        assert pytest.RaisesExc(HeadraceError, match=expected).matches(error), (expected, error.message)
        assert isinstance(error, UserError if "bucket 'nowhere'" in expected else ExternalError)


def test_what_is_no_warehouse_is_told_in_one_way() -> None:
    assert (
        of_status(500, "x:443").message
        == of_status(None, "x:443").message
        == "x:443 did not answer as a SQL warehouse"
    )


def test_what_asks_all_the_time_does_not_wake_the_warehouse(
    databricks: Workspace, store: dict[str, str]
) -> None:
    asked = len(databricks.front.statements)
    probe(store)()
    assert len(databricks.front.statements) == asked
    with pytest.raises(ExternalError, match="network: "):
        probe(store_of(databricks, **{"databricks.warehouse_port": "1"}))()


def test_the_client_may_be_missing(store: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "databricks.sql", None)
    with pytest.raises(
        UserError, match="no client for Databricks: the Python package databricks is missing"
    ) as caught:
        admin.test(store)
    assert caught.value.state == SqlState.FEATURE_NOT_SUPPORTED
    assert "pip install 'headrace[databricks]'" in str(caught.value.hint)
