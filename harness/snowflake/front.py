"""fakesnow's server with accounts before it; runs in the environment of `requirements.lock`, and imports nothing of ours.

The argument is a file of JSON: `user`, `password`, `token`, `role`, and `key`, the PEM text of the user's public key. Says "ready PORT".
Mended of fakesnow: COPY into a temporary table, whose columns it looks for in the wrong place; a NULL where there may be none, by which
it breaks; two transactions that change one row, at which it answers 500, so that the client tries again for five minutes; and the time
at which a table was created, for which it shows 1970: here the number of DuckDB's table, as seconds.
POST /abort rolls back what transactions are open, as Snowflake does in time with those of clients that are gone.
"""

from __future__ import annotations

import gzip
import json
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import jwt
import uvicorn
from fakesnow import copy_into
from fakesnow.cursor import FakeSnowflakeCursor
from fakesnow.server import login_request, routes, sessions, shared_fs
from fakesnow.transforms import show
from snowflake.connector.errors import ProgrammingError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

LOGIN = "/session/v1/login-request"
# As Snowflake numbers what it says of a login.
WRONG_PASSWORD, WRONG_TOKEN, WRONG_KEY, WRONG_ROLE = "390100", "390303", "390144", "390189"
_described = copy_into._describe_table  # type: ignore[attr-defined]
_execute = FakeSnowflakeCursor._execute
_CREATION = """
to_timestamp((
    SELECT max(own.table_oid) FROM duckdb_tables() own
    WHERE own.database_name = tables.table_catalog AND own.schema_name = tables.table_schema AND own.table_name = tables.table_name
))"""


def _describe_table(table: Any, connection: Any, *where: Any) -> list[tuple[str, str]]:
    temporary = (
        "SELECT column_name, data_type FROM duckdb_columns() WHERE database_name = 'temp' AND table_name = ?"
    )
    columns: list[tuple[str, str]] = connection.execute(temporary, [table.name]).fetchall()
    return columns or _described(table, connection, *where)


def _executed(cursor: Any, *given: Any, **named: Any) -> Any:
    try:
        return _execute(cursor, *given, **named)
    except (duckdb.ConstraintException, duckdb.TransactionException) as error:
        # Of two that change a row DuckDB ends the later one, or lets it break a key: Snowflake heeds none, and fakesnow's own
        # tables have some. Snowflake lets it wait for the other's lock, and in the end gives up.
        if isinstance(error, duckdb.TransactionException) or "Duplicate key" in str(error):
            raise ProgrammingError(msg=str(error), errno=625, sqlstate="57014") from error
        raise ProgrammingError(msg=str(error), errno=100072, sqlstate="22000") from error


def refusal(accounts: dict[str, str], request: Request, given: dict[str, Any]) -> tuple[str, str] | None:
    """Return number and text of Snowflake's error for a login; None for a correct login."""
    user, way = given.get("LOGIN_NAME"), given.get("AUTHENTICATOR", "SNOWFLAKE")
    if way == "SNOWFLAKE_JWT":
        claims = _claims(given["TOKEN"], accounts["key"])
        if claims.get("sub") != f"{given['ACCOUNT_NAME'].upper()}.{accounts['user'].upper()}":
            return WRONG_KEY, "JWT token is invalid."
    elif way in ("PROGRAMMATIC_ACCESS_TOKEN", "OAUTH"):
        if given.get("TOKEN") != accounts["token"]:
            return WRONG_TOKEN, "Invalid OAuth access token."
    elif (user, given.get("PASSWORD")) != (accounts["user"], accounts["password"]):
        return WRONG_PASSWORD, "Incorrect username or password was specified."
    role = request.query_params.get("roleName")
    if role not in (None, accounts["role"]):
        return WRONG_ROLE, f"Role '{role}' specified in the connect string does not exist or not authorized."
    return None


def _claims(token: str, key: str) -> dict[str, Any]:
    try:
        return jwt.decode(token, key, algorithms=["RS256"])
    except jwt.InvalidTokenError:
        return {}


def application(accounts: dict[str, str]) -> Starlette:
    """fakesnow's, with a login of ours."""

    async def login(request: Request) -> Response:
        body = await request.body()
        if request.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        wrong = refusal(accounts, request, json.loads(body)["data"])
        if wrong is None:
            answer: Response = await login_request(request)
            return answer
        return JSONResponse({"data": {}, "code": wrong[0], "message": wrong[1], "success": False})

    async def abort(_request: Request) -> Response:
        for session in sessions.values():
            with suppress(duckdb.Error):  # it has none
                session._duck_conn.rollback()
        return Response()

    kept = [route for route in routes if route.path != LOGIN]
    return Starlette(
        routes=[Route(LOGIN, login, methods=["POST"]), Route("/abort", abort, methods=["POST"]), *kept]
    )


def main() -> None:
    """Serves until SIGTERM."""
    accounts = json.loads(Path(sys.argv[1]).read_text())
    copy_into._describe_table = _describe_table  # type: ignore[attr-defined]
    FakeSnowflakeCursor._execute = _executed
    tables = show.SQL_CREATE_VIEW_SHOW_TABLES.replace("view if not exists", "or replace view")
    shared_fs.duck_conn.execute(tables.replace("to_timestamp(0)", _CREATION))
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(application(accounts), log_level="info", access_log=False)
    serving = uvicorn.Server(config)
    print("ready", listener.getsockname()[1], flush=True)  # noqa: T201
    serving.run(sockets=[listener])


if __name__ == "__main__":
    main()
