"""A server that stands by, over the catalog of another one: what it answers, and what it must share."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from headrace.catalog import identity
from headrace.catalog.catalog import Catalog
from headrace.catalog.keys import GivenKeys
from headrace.catalog.lease import Lease
from headrace.catalog.objects import SECRET_STRING, ComputePool, Relation, RelationKind, Secret
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.names import RelationName
from headrace.core.schema import Column, Schema
from headrace.core.settings import Settings
from headrace.core.types import BIGINT
from headrace.server import sharing, standby

KEY = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
NOW = datetime.datetime(2026, 11, 28, tzinfo=datetime.UTC)
OTHER_KEY = "MTEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="


@dataclass
class Pair:
    """The catalog of a server that leads, and the lease and the settings of one that stands by."""

    catalog: Catalog
    lease: Lease
    settings: Settings

    def with_settings(self, **changed: object) -> Settings:
        """The settings of the server that stands by, with others."""
        return self.settings.model_copy(update=changed)


@pytest.fixture
def pair(schema_of: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    monkeypatch.setattr(standby, "REFRESH_S", 0.01)
    monkeypatch.setattr(standby, "REFRESH_SHARE", 0)
    url, shared = schema_of(), tmp_path / "shared"
    shared.mkdir()
    first, second = Lease(url, address="http://leader:8080"), Lease(url, address="http://other:8080")
    assert first.try_claim()
    catalog = Catalog.open(tmp_path / "a", url, GivenKeys(KEY), first)
    catalog.ensure_administrator("good-token")
    identity.bind(catalog, shared, adopt=False)
    assert not second.try_claim()
    settings = Settings(
        data_dir=tmp_path / "b",
        shared_dir=shared,
        catalog_url=SecretStr(url),
        catalog_key=SecretStr(KEY),
    )
    yield Pair(catalog, second, settings)
    second.release()
    catalog.close()


async def test_it_tells_probes_and_refuses_statements_with_the_address_of_the_leader(pair: Pair) -> None:
    async with (
        standby.standing_by(pair.settings, pair.lease) as app,
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost:8080") as http,
    ):
        assert (await http.get("/healthz")).status_code == 200
        ready = await http.get("/readyz")
        assert (ready.status_code, ready.text) == (503, "standby\n")
        statement = {"statement": "LIST DATABASES;"}
        assert (await http.post("/v2/statements", json=statement)).status_code == 403
        headers = {"Authorization": "Bearer good-token"}
        answer = (await http.post("/v2/statements", json=statement, headers=headers)).json()
        assert answer["sqlState"] == "57P03"
        assert "Connect to the leader: http://leader:8080" in answer["message"]
        assert "headrace_leader 0.0" in (await http.get("/metrics", headers=headers)).text
        assert (await http.get("/metrics")).status_code == 403


async def test_its_users_are_those_of_the_leader(pair: Pair) -> None:
    async with (
        standby.standing_by(pair.settings, pair.lease) as app,
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost:8080") as http,
    ):
        pair.catalog.ensure_administrator("later-token")
        for token, expected in (("later-token", 200), ("good-token", 403)):
            headers = {"Authorization": f"Bearer {token}"}
            for _ in range(1000):
                answer = await http.get("/v2/version", headers=headers)
                if answer.status_code == expected:
                    break
                await asyncio.sleep(0.01)
            assert answer.status_code == expected


async def _refusal(settings: Settings, lease: Lease) -> HeadraceError:
    with pytest.raises(HeadraceError) as failure:
        async with standby.standing_by(settings, lease):
            pass
    return failure.value


async def test_it_refuses_what_it_does_not_share(pair: Pair, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    refusal = await _refusal(pair.with_settings(shared_dir=tmp_path / "elsewhere"), pair.lease)
    assert "is not the folder of the server that leads" in refusal.message
    folder = tmp_path / "missing"
    pair.catalog.create_compute_pool(
        ComputePool(
            "p",
            "small",
            "sysadmin",
            NOW,
            NOW,
            properties={
                "compute_pool.master": "spark://127.0.0.1:7077",
                "compute_pool.checkpoints": f"file:{folder}",
            },
        )
    )
    refusal = await _refusal(pair.settings, pair.lease)
    assert f"the compute pool p keeps its checkpoints in {folder}" in refusal.message
    folder.mkdir()
    async with standby.standing_by(pair.settings, pair.lease):
        pass


async def test_rows_of_views_on_one_disk_are_refused(pair: Pair) -> None:
    pair.catalog.create_database("d", "sysadmin")
    pair.catalog.create_relation(
        Relation(
            name=RelationName("d", "public", "v"),
            kind=RelationKind.MATERIALIZED_VIEW,
            schema=Schema((Column("n", BIGINT),)),
            owner="sysadmin",
            created_at=NOW,
            updated_at=NOW,
        )
    )
    refusal = await _refusal(pair.settings, pair.lease)
    assert refusal.message.startswith("materialized views in DuckDB")
    assert "HEADRACE_VIEWS" in (refusal.hint or "")


async def test_another_key_is_refused(pair: Pair) -> None:
    pair.catalog.create_secret(
        Secret("s", "generic", "sysadmin", NOW, NOW, properties={SECRET_STRING: "text"})
    )
    settings = pair.with_settings(catalog_key=SecretStr(OTHER_KEY))
    assert "the catalog's key decrypts none" in (await _refusal(settings, pair.lease)).message


@pytest.mark.parametrize(
    ("changed", "kafka_port", "reason"),
    [
        ({"catalog_url": None}, None, "the catalog is a file"),
        ({"catalog_key": None}, None, "the key of the catalog is a file"),
        ({}, 0, "--with-kafka"),
        ({"shared_dir": Path("/nonexistent/shared")}, None, "/nonexistent/shared does not exist"),
    ],
)
def test_settings_that_leave_something_on_one_machine_are_refused(
    changed: dict[str, object], kafka_port: int | None, reason: str, tmp_path: Path
) -> None:
    settings = Settings(
        data_dir=tmp_path,
        shared_dir=tmp_path,
        catalog_url=SecretStr("postgresql://h/d"),
        catalog_key=SecretStr(KEY),
    )
    sharing.check_settings(settings, kafka_port=None)
    with pytest.raises(UserError, match=reason):
        sharing.check_settings(settings.model_copy(update=changed), kafka_port=kafka_port)


async def test_a_leader_that_is_starting_is_waited_for(schema_of: Callable[[], str], tmp_path: Path) -> None:
    url = schema_of()
    first, second = Lease(url), Lease(url)
    assert first.try_claim()
    settings = Settings(
        data_dir=tmp_path, shared_dir=tmp_path, catalog_url=SecretStr(url), catalog_key=SecretStr(KEY)
    )
    assert isinstance(await _refusal(settings, second), ExternalError)
    first.release()
    second.release()
