"""GET /v2/download: a file for whom it is, and nothing of a machine's own."""

from __future__ import annotations

from pathlib import Path

import httpx

from harness.session import UDFS, open_session
from headrace.core.settings import Settings
from headrace.server.app import create_app
from headrace.server.ports import ServerParts
from tests.unit.server.scripted import TOKENS, ScriptedStatements


async def test_a_file_is_answered_as_it_came_to_who_may_have_it(settings: Settings, tmp_path: Path) -> None:
    async with open_session(tmp_path / "data") as session:
        parts = ServerParts(settings, ScriptedStatements(), TOKENS.get, download=session.service.download)
        transport = httpx.ASGITransport(create_app(parts))
        organization = session.catalog.organization().id
        base = f"/v2/download/function_source/{organization}"
        async with httpx.AsyncClient(transport=transport, base_url="http://headrace:8080") as http:

            async def got(path: str, user: str = "good") -> httpx.Response:
                return await http.get(path, headers={"Authorization": f"Bearer {user}-token"})

            response = await got(f"{base}/u")
            assert (response.status_code, response.content) == (200, UDFS)
            assert response.headers["content-type"] == "application/octet-stream"
            assert response.headers["content-disposition"] == "attachment"
            assert response.headers["x-content-type-options"] == "nosniff"
            assert (await http.get(f"{base}/u")).status_code == 403
            refused = await got(f"{base}/u", "other")
            missing = await got(f"{base}/v", "other")
            assert (refused.status_code, missing.status_code) == (404, 404)
            assert refused.json()["message"].replace(" u ", " v ") == missing.json()["message"]
            for path in (
                f"{base}/..%2Fcatalog.db",
                f"{base}/%2Fetc%2Fpasswd",
                f"{base}/%00",
                f"/v2/download/secret/{organization}/u",
                "/v2/download/function_source/other/u",
            ):
                answer = await got(path)
                assert answer.status_code == 404, path
                assert "message" in answer.json()
            assert (
                await http.post(f"{base}/u", headers={"Authorization": "Bearer good-token"})
            ).status_code == 405


async def test_a_name_of_any_characters_is_found(settings: Settings, tmp_path: Path) -> None:
    async with open_session(tmp_path / "data") as session:
        await session.run('ALTER FUNCTION_SOURCE u RENAME TO "a/b c%東"')
        [(url,)] = await session.rows("LIST FUNCTION_SOURCES", "Url")
        parts = ServerParts(settings, ScriptedStatements(), TOKENS.get, download=session.service.download)
        transport = httpx.ASGITransport(create_app(parts))
        async with httpx.AsyncClient(transport=transport, base_url="http://headrace:8080") as http:
            response = await http.get(str(url), headers={"Authorization": "Bearer good-token"})
    assert (response.status_code, response.content) == (200, UDFS)
