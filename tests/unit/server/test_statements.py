"""POST and GET /v2/statements, as the public clients use them."""

from __future__ import annotations

import asyncio
import json
import uuid

import httpx
import pytest

from harness.patience import PATIENCE_S
from headrace.core.errors import Diagnostic, Span, UserError
from headrace.core.resultset import ResultSet, result
from headrace.core.sqlstate import SqlState
from headrace.core.types import BIGINT, VARCHAR
from headrace.statements.completion import Candidate
from tests.unit.server.scripted import ORGANIZATION, ScriptedStatements, ScriptedStream

DATABASES = result([("Name", VARCHAR), ("Rows", BIGINT)], [("d", 1), ("e", None)])


async def submit(http: httpx.AsyncClient, statement: str, **fields: object) -> dict[str, object]:
    answer = await http.post("/v2/statements", json={"statement": statement, **fields})
    assert answer.status_code == 200, answer.text
    body: dict[str, object] = answer.json()
    return body


async def test_a_result_has_every_field_that_the_clients_need(
    http: httpx.AsyncClient, statements: ScriptedStatements
) -> None:
    statements.answer("LIST DATABASES;", DATABASES)
    body = await submit(
        http, "LIST DATABASES;", database="d", schema="s", store="k", computePool="p", role="r"
    )
    assert body["sqlState"] == "00000"
    assert uuid.UUID(str(body["statementID"]))
    assert type(body["createdOn"]) is int
    assert body["data"] == [["d", "1"], ["e", None]]
    assert body["metadata"] == {
        "encoding": "json",
        "columns": [
            {"name": "Name", "type": "VARCHAR", "nullable": True},
            {"name": "Rows", "type": "BIGINT", "nullable": True},
        ],
        "partitionInfo": [{"rowCount": 2}],
        "context": {
            "organizationID": ORGANIZATION,
            "roleName": "r",
            "databaseName": "d",
            "schemaName": "s",
            "storeName": "k",
            "computePoolName": "p",
        },
    }


async def test_names_that_are_not_set_are_left_out_of_the_context(http: httpx.AsyncClient) -> None:
    body = await submit(http, "-- nothing", database="", store=None, parameters=None)
    assert body["metadata"]["context"] == {"organizationID": ORGANIZATION, "roleName": "sysadmin"}  # type: ignore[index]
    assert body["data"] == []
    assert body["metadata"]["partitionInfo"] == []  # type: ignore[index]


REQUEST = json.dumps({"statement": "LIST STORES;", "parameters": {"timezone": "Europe/Berlin"}}).encode()


@pytest.mark.parametrize(
    "part",
    [
        b'Content-Disposition: form-data; name="request";\r\nContent-Type: application/json\r\n',
        b'Content-Disposition: form-data; name="request"\r\n',
        b'Content-Disposition: form-data; name="request"; filename="blob"\r\nContent-Type: application/json\r\n',
    ],
    ids=["go", "python", "typescript"],
)
async def test_each_client_s_form_is_read(
    http: httpx.AsyncClient, statements: ScriptedStatements, part: bytes
) -> None:
    body = (
        b"--x\r\n" + part + b"\r\n" + REQUEST + b"\r\n"
        b'--x\r\nContent-Disposition: form-data; name="attachments"; filename="f.jar"\r\n\r\nPK\r\n--x--\r\n'
    )
    answer = await http.post(
        "/v2/statements", content=body, headers={"Content-Type": "multipart/form-data; boundary=x"}
    )
    assert answer.json()["sqlState"] == "00000"
    assert statements.texts == ["LIST STORES;"]
    assert statements.files == [{"f.jar": b"PK"}]
    assert statements.contexts[0].timezone == "Europe/Berlin"


async def test_an_attachment_may_be_named_with_its_at_sign(
    http: httpx.AsyncClient, statements: ScriptedStatements
) -> None:
    files = [("request", (None, REQUEST)), ("attachments", ("@cacert", b"1"))]
    await http.post("/v2/statements", files=files)
    assert statements.files == [{"cacert": b"1"}]


@pytest.mark.parametrize("name", ["f.jar", "up/f.jar", "@f.jar"])
async def test_attachments_have_names_that_differ(http: httpx.AsyncClient, name: str) -> None:
    files = [("request", (None, REQUEST)), ("attachments", ("f.jar", b"1")), ("attachments", (name, b"2"))]
    answer = await http.post("/v2/statements", files=files)
    assert answer.status_code == 400
    assert "differ" in answer.json()["message"]


async def test_long_sql_fits_into_a_plain_form_field(
    http: httpx.AsyncClient, statements: ScriptedStatements
) -> None:
    text = "-- " + "x" * 1_500_000
    answer = await http.post("/v2/statements", files={"request": (None, json.dumps({"statement": text}))})
    assert answer.status_code == 200
    assert statements.texts == [text]


@pytest.mark.parametrize(
    ("content", "content_type"),
    [
        (b"{}", "application/json"),
        (b"not json", "application/json"),
        (b"--x--\r\n", "multipart/form-data; boundary=x"),
        (b"broken", "multipart/form-data; boundary=x"),
        (b"SELECT 1", "text/plain"),
    ],
)
async def test_a_request_that_cannot_be_read_is_a_400_with_a_message(
    http: httpx.AsyncClient, content: bytes, content_type: str
) -> None:
    answer = await http.post("/v2/statements", content=content, headers={"Content-Type": content_type})
    assert answer.status_code == 400
    assert set(answer.json()) == {"message"}


async def test_an_unreadable_request_is_not_quoted_back(http: httpx.AsyncClient) -> None:
    answer = await http.post("/v2/statements", json={"statement": ["hunter2"]})
    assert answer.status_code == 400
    assert "hunter2" not in answer.text


async def test_a_body_over_the_limit_is_a_400_that_names_the_limit(http: httpx.AsyncClient) -> None:
    answer = await http.post("/v2/statements", json={"statement": "x" * 3_000_000})
    assert answer.status_code == 400
    assert "2097152 bytes" in answer.json()["message"]


async def test_a_sql_error_is_a_200_with_its_sqlstate_place_and_hint(
    http: httpx.AsyncClient, statements: ScriptedStatements
) -> None:
    error = UserError(SqlState.SYNTAX_ERROR, "unexpected FORM", hint="Write FROM.", span=Span(9, 13, 2, 3))
    statements.answer("SELECT", error)
    body = await submit(http, "SELECT", database="d")
    assert body["sqlState"] == "42601"
    assert body["message"] == "unexpected FORM at line 2, column 3\nHint: Write FROM."
    assert body["error"] == {
        "severity": "error",
        "sqlState": "42601",
        "message": "unexpected FORM",
        "hint": "Write FROM.",
        "position": {"start": 9, "end": 13, "line": 2, "column": 3},
    }
    assert body["metadata"] == {
        "encoding": "json",
        "columns": [],
        "partitionInfo": [],
        "context": {"organizationID": ORGANIZATION, "roleName": "sysadmin", "databaseName": "d"},
    }
    assert body["data"] == []


async def test_what_was_expected_and_found_are_fields_of_their_own(
    http: httpx.AsyncClient, statements: ScriptedStatements
) -> None:
    statements.answer(
        "LIST", UserError(SqlState.SYNTAX_ERROR, "expected ',' or ')' here, found 'x, found y'")
    )
    error = (await submit(http, "LIST"))["error"]
    assert error["expected"] == "',' or ')' here"  # type: ignore[index]
    assert error["found"] == "'x, found y'"  # type: ignore[index]
    assert "position" not in error  # type: ignore[operator]


async def test_a_check_answers_all_that_is_wrong_and_runs_nothing(
    http: httpx.AsyncClient, statements: ScriptedStatements
) -> None:
    statements.diagnostics = [
        Diagnostic("42601", "expected a, found b", "Write a.", Span(0, 1, 1, 1), "a", "b"),
        Diagnostic("42P04", "the database 'd' already exists", severity="warning"),
    ]
    answer = await http.post("/v2/validate", json={"statement": "b; c", "database": "d"})
    assert answer.status_code == 200
    assert answer.json()["statements"] == []
    first, second = answer.json()["diagnostics"]
    assert first == {
        "severity": "error",
        "sqlState": "42601",
        "message": "expected a, found b",
        "expected": "a",
        "found": "b",
        "hint": "Write a.",
        "position": {"start": 0, "end": 1, "line": 1, "column": 1},
    }
    assert set(second) == {"severity", "sqlState", "message"}
    assert statements.contexts[0].database == "d"


async def test_a_check_of_a_context_that_is_refused_says_so(
    http: httpx.AsyncClient, statements: ScriptedStatements
) -> None:
    statements.answer("x", UserError(SqlState.ROLE_NOT_FOUND, "the role 'r' does not exist"))
    statements.answer("y", RuntimeError("secret inside"))
    for text, state in (("x", "3D001"), ("y", "XX000")):
        answer = await http.post("/v2/validate", json={"statement": text, "role": "r"})
        assert [diagnostic["sqlState"] for diagnostic in answer.json()["diagnostics"]] == [state]
        assert "secret inside" not in answer.text


async def test_an_unexpected_exception_shows_an_id_and_nothing_else(
    http: httpx.AsyncClient, statements: ScriptedStatements
) -> None:
    statements.answer("SELECT", RuntimeError("secret inside"))
    body = await submit(http, "SELECT")
    assert body["sqlState"] == "XX000"
    assert "secret inside" not in str(body)


async def test_large_results_come_in_partitions_with_all_row_counts_first(
    http: httpx.AsyncClient, statements: ScriptedStatements
) -> None:
    statements.answer("SELECT", result([("n", BIGINT)], [(n,) for n in range(8)]))
    first = await submit(http, "SELECT")
    rows = list(first["data"])  # type: ignore[call-overload]
    for partition in (1, 2):
        answer = await http.get(f"/v2/statements/{first['statementID']}?partitionID={partition}&timezone=UTC")
        page = answer.json()
        assert page["metadata"] == first["metadata"]
        rows += page["data"]
    assert first["metadata"]["partitionInfo"] == [{"rowCount": 3}, {"rowCount": 3}, {"rowCount": 2}]  # type: ignore[index]
    assert rows == [[str(n)] for n in range(8)]
    assert (await http.get(f"/v2/statements/{first['statementID']}?partitionID=3")).status_code == 400
    assert (await http.get(f"/v2/statements/{first['statementID']}?partitionID=-1")).status_code == 400
    assert (await http.get(f"/v2/statements/{first['statementID']}?partitionID=x")).json().keys() == {
        "message"
    }


@pytest.mark.parametrize("limits", [{"statement_timeout_ms": 50}])
async def test_a_slow_statement_is_a_202_and_polled_to_its_end(
    http: httpx.AsyncClient, statements: ScriptedStatements
) -> None:
    over = asyncio.Event()

    async def slow() -> ResultSet:
        await over.wait()
        return DATABASES

    statements.steps["SLOW"] = slow
    answer = await http.post("/v2/statements", json={"statement": "SLOW"})
    assert answer.status_code == 202
    waiting = answer.json()
    assert waiting["sqlState"] == "03000"
    path = f"/v2/statements/{waiting['statementID']}?partitionID=0&sessionID=&timezone=UTC"
    assert (await http.get(path)).status_code == 202
    over.set()
    async with asyncio.timeout(PATIENCE_S):
        while (done := await http.get(path)).status_code == 202:
            pass
    assert done.status_code == 200
    assert done.json()["statementID"] == waiting["statementID"]
    assert done.json()["metadata"]["context"]["organizationID"] == ORGANIZATION
    assert done.json()["data"] == [["d", "1"], ["e", None]]


async def test_another_user_s_statement_is_not_there(http: httpx.AsyncClient) -> None:
    body = await submit(http, "LIST STORES;")
    path = f"/v2/statements/{body['statementID']}"
    answer = await http.get(path, headers={"Authorization": "Bearer other-token"})
    assert answer.status_code == 404
    assert (await http.get(path)).status_code == 200


async def test_old_results_are_forgotten(http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.server.rest.runs.KEPT_MAX", 2)
    bodies = [await submit(http, "LIST STORES;") for _ in range(4)]
    statuses = [(await http.get(f"/v2/statements/{body['statementID']}")).status_code for body in bodies]
    assert statuses == [404, 200, 200, 200]


async def test_a_result_outlives_another_user_s_flood_and_read_ones_go_first(
    http: httpx.AsyncClient, statements: ScriptedStatements, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.server.rest.runs.KEPT_MAX", 2)
    statements.answer("SELECT", result([("n", BIGINT)], [(n,) for n in range(8)]))
    other = {"Authorization": "Bearer other-token"}
    theirs = (await http.post("/v2/statements", json={"statement": "SELECT"}, headers=other)).json()
    unread = await submit(http, "SELECT")
    for _ in range(20):
        await submit(http, "LIST STORES;")
    for body, headers in ((theirs, other), (unread, {})):
        for partition in range(3):
            path = f"/v2/statements/{body['statementID']}?partitionID={partition}"
            assert (await http.get(path, headers=headers)).status_code == 200


async def test_rows_kept_are_bounded_too(
    http: httpx.AsyncClient, statements: ScriptedStatements, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.server.rest.runs.KEPT_ROWS_MAX", 10)
    statements.answer("SELECT", result([("n", BIGINT)], [(n,) for n in range(8)]))
    bodies = [await submit(http, "SELECT") for _ in range(3)]
    statuses = [(await http.get(f"/v2/statements/{body['statementID']}")).status_code for body in bodies]
    assert statuses == [404, 200, 200]


@pytest.mark.parametrize(
    ("agent", "scheme"),
    [("OpenAPI-Generator/1.0.0/python", "ws"), ("Go-http-client/1.1", "http"), ("node", "http")],
)
async def test_a_live_result_is_offered_at_a_uri_that_the_client_can_open(
    http: httpx.AsyncClient, statements: ScriptedStatements, agent: str, scheme: str
) -> None:
    statements.answer("SELECT * FROM s;", ScriptedStream())
    answer = await http.post(
        "/v2/statements", json={"statement": "SELECT * FROM s;"}, headers={"User-Agent": agent}
    )
    body = answer.json()
    offer = body["metadata"]["dataplaneRequest"]
    assert offer["uri"] == f"{scheme}://headrace:8080/v2/statements/{body['statementID']}"
    assert offer["requestType"] == "streaming"
    assert offer["statementID"] == body["statementID"]
    assert len(offer["token"]) >= 43
    assert body["data"] == []
    assert body["metadata"]["context"]["organizationID"] == ORGANIZATION


async def test_over_tls_every_client_gets_https(app: object, statements: ScriptedStatements) -> None:
    statements.answer("SELECT * FROM s;", ScriptedStream())
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app),  # type: ignore[arg-type]
        base_url="https://headrace",
        headers={"Authorization": "Bearer good-token", "User-Agent": "OpenAPI-Generator/1.0.0/python"},
    ) as http:
        answer = await http.post("/v2/statements", json={"statement": "SELECT * FROM s;"})
    assert answer.json()["metadata"]["dataplaneRequest"]["uri"].startswith("https://headrace/v2/statements/")


async def test_a_message_of_a_result_is_passed_on(
    http: httpx.AsyncClient, statements: ScriptedStatements
) -> None:
    statements.answer("X", ResultSet(message="it exists already"))
    assert (await submit(http, "X"))["message"] == "it exists already"


async def test_a_lone_surrogate_in_a_cell_does_not_break_the_answer(
    http: httpx.AsyncClient, statements: ScriptedStatements
) -> None:
    statements.answer("X", result([("c", VARCHAR)], [("\ud800",)]))
    answer = await http.post("/v2/statements", json={"statement": "X"})
    assert "\\ud800" in answer.text


async def test_a_completion_is_answered_at_its_offset(
    http: httpx.AsyncClient, statements: ScriptedStatements
) -> None:
    statements.candidates = [
        Candidate("orders", "stream", "orders", "", "of the shop"),
        Candidate("n", "column", "n", "BIGINT"),
    ]
    answer = await http.post("/v2/complete", json={"statement": "SELECT or", "offset": 9, "database": "shop"})
    assert answer.status_code == 200
    assert answer.json() == {
        "start": 7,
        "end": 9,
        "candidates": [
            {
                "label": "orders",
                "kind": "stream",
                "insert": "orders",
                "detail": "",
                "documentation": "of the shop",
            }
        ],
        "opens": False,
    }
    assert statements.contexts[0].database == "shop"
    at_the_end = await http.post("/v2/complete", json={"statement": "SELECT n"})
    assert [candidate["label"] for candidate in at_the_end.json()["candidates"]] == ["n"]


async def test_a_completion_that_cannot_be_read_is_refused(http: httpx.AsyncClient) -> None:
    for body in ({"offset": 1}, {"statement": "x", "offset": -1}, {"statement": "x", "offset": "far"}):
        assert (await http.post("/v2/complete", json=body)).status_code == 400


async def test_a_completion_in_a_role_that_does_not_exist_has_no_candidates(
    http: httpx.AsyncClient, statements: ScriptedStatements
) -> None:
    statements.answer("x", UserError(SqlState.ROLE_NOT_FOUND, "the role 'r' does not exist"))
    answer = await http.post("/v2/complete", json={"statement": "x", "role": "r"})
    assert answer.json() == {"start": 1, "end": 1, "candidates": [], "opens": False}


async def test_the_language_is_data(http: httpx.AsyncClient) -> None:
    language = (await http.get("/v2/language")).json()
    assert language["words"] == ["SELECT", "FROM"]
    assert language["properties"][0]["statements"] == ["CREATE STORE"]
    assert {"types", "functions", "storeTypes", "statements"} < set(language)
