"""Session of an account: statements with their parameters, files of rows in, rows out as Arrow.

Snowflake's client follows the server's responses to any statement: they can make it upload files of this machine, or write files.
Sessions here only let it upload the files that they pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from types import ModuleType, TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

from headrace.connectors.extras import client_module
from headrace.connectors.hosts import check_listening
from headrace.connectors.snowflake.failures import of_snowflake
from headrace.connectors.snowflake.options import (
    ACCOUNT,
    KEY,
    PASSWORD,
    ROLE,
    TOKEN,
    TOKEN_TYPE,
    URIS,
    USERNAME,
    WAREHOUSE,
    address,
)
from headrace.connectors.upper_case import folded

if TYPE_CHECKING:
    import pyarrow as pa

LOGIN_TIMEOUT_S = 20
# The time limit of a statement with the client's own retries: a warehouse may have to start first.
_STATEMENT_TIMEOUT_S = 300
_REACH_TIMEOUT_S = 5
_UNKNOWN = (
    "Check the account in 'uris': https://account.snowflakecomputing.com, with the region where it needs one."
)
_SESSION = {
    "TIMEZONE": "UTC",
    "QUERY_TAG": "headrace",
    # A name in quotes is that name, and a text is that text, whatever the account's own settings are.
    "QUOTED_IDENTIFIERS_IGNORE_CASE": False,
    "BINARY_INPUT_FORMAT": "HEX",
    "BINARY_OUTPUT_FORMAT": "BASE64",
}
_AUTHENTICATORS = {"programmatic": "PROGRAMMATIC_ACCESS_TOKEN", "oauth": "oauth"}


class Snowflake:
    """A session of a store's user, which is opened at once; a context manager. All of it raises UserError or ExternalError, classified."""

    def __init__(self, store: Mapping[str, str], *, login_timeout_s: int = LOGIN_TIMEOUT_S) -> None:
        place = address(store[URIS.name])
        self.server = place.server
        client = _client()
        # The client would try for as long as a login may take.
        reach(store)
        with self._classified():
            self._connection = client.connect(
                account=store[ACCOUNT.name],
                host=place.host,
                port=place.port,
                protocol="https" if place.secure else "http",
                user=store[USERNAME.name],
                role=store.get(ROLE.name),
                warehouse=store.get(WAREHOUSE.name),
                **_credentials(store),
                application="Headrace",
                paramstyle="qmark",
                session_parameters=_SESSION,
                client_session_keep_alive=True,
                login_timeout=login_timeout_s,
                network_timeout=_STATEMENT_TIMEOUT_S,
                # Numbers with a fraction would come as floating-point ones.
                arrow_number_to_decimal=True,
                # By default, the client requests the machine's identity from the cloud's metadata service.
                platform_detection_timeout_seconds=0.0,
            )
        self._connection.telemetry_enabled = False
        self._cursors = _cursor_class()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the session without a commit. Ignores errors."""
        self._connection.close(retry=False)

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """Run a statement, and return its rows by Snowflake's names of columns."""
        with self._executed(statement, parameters) as cursor:
            names = [column.name for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        """Execute a statement, and return how many rows it changed."""
        with self._executed(statement, parameters) as cursor:
            return int(cursor.rowcount or 0)

    def put(self, content: IO[bytes], name: str, stage: str) -> None:
        """Upload a file to a stage as `name`, which must not need quotes; return when the upload is complete."""
        statement = (
            f"PUT file://{name} {stage} AUTO_COMPRESS = FALSE SOURCE_COMPRESSION = PARQUET OVERWRITE = TRUE"
        )
        with self._executed(statement, (), file_stream=content) as cursor:
            cursor.fetchall()

    def arrow(self, statement: str) -> Iterator[pa.Table]:
        """Yield the rows of a query in parts."""
        with self._executed(statement, ()) as cursor:
            yield from cursor.fetch_arrow_batches()

    @contextmanager
    def _executed(self, statement: str, parameters: Sequence[Any], **more: Any) -> Iterator[Any]:
        with self._classified(), self._connection.cursor(self._cursors) as cursor:
            cursor.execute(statement, tuple(parameters) or None, **more)
            yield cursor

    @contextmanager
    def _classified(self) -> Iterator[None]:
        client = _client()
        # For HTTP errors, the client has classes that do not inherit from the DB-API's other `Error`s.
        try:
            yield
        except client.errors.Error as error:
            raise of_snowflake(
                error.errno or -1, error.sqlstate or "", error.raw_msg or "", self.server
            ) from None
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise of_snowflake(-1, "", f"{type(error).__name__} in its answer", self.server) from None


def reach(store: Mapping[str, str]) -> None:
    """Check that the account's host is known and something listens there; raises ExternalError 57015."""
    place = address(store[URIS.name])
    try:
        check_listening(place.host, place.port, timeout_s=_REACH_TIMEOUT_S, hint=_UNKNOWN)
    except OSError:
        raise of_snowflake(-1, "", "nothing listens there", place.server) from None


def _client() -> ModuleType:
    return client_module("snowflake.connector", extra="snowflake", label="Snowflake")


@cache
def _cursor_class() -> type:
    """Return Snowflake's cursor, which refuses a server's requests for files."""
    base: Any = client_module(
        "snowflake.connector.cursor", extra="snowflake", label="Snowflake"
    ).SnowflakeCursor
    create_agent = (
        base._create_file_transfer_agent
    )  # if a release has none, what follows would keep nothing away

    class Cursor(base):  # type: ignore[misc]
        def _create_file_transfer_agent(self, command: str, ret: Any, /, **more: Any) -> Any:
            data = ret["data"]
            local = str(data["stageInfo"]["locationType"]).upper() == "LOCAL_FS"
            if more.get("source_from_stream") is None or data["command"] != "UPLOAD" or local:
                raise ValueError("files of this machine")
            return create_agent(self, command, ret, **more)

    return Cursor


def _credentials(store: Mapping[str, str]) -> dict[str, Any]:
    if KEY.name in store:
        return {"authenticator": "SNOWFLAKE_JWT", "private_key": _der(store[KEY.name])}
    if TOKEN.name in store:
        return {"authenticator": _AUTHENTICATORS[store[TOKEN_TYPE.name]], "token": store[TOKEN.name]}
    return {"password": store[PASSWORD.name]}


def _der(pem: str) -> bytes:
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )

    return load_pem_private_key(pem.encode(), None).private_bytes(
        Encoding.DER, PrivateFormat.PKCS8, NoEncryption()
    )


def identifier(name: str) -> str:
    """Return a name as SQL: a name that folds to lower case here is written in upper case, as Snowflake folds names without quotes."""
    return quoted(folded(name))


def quoted(name: str) -> str:
    """Return a name, as it is, as SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: str) -> str:
    """Return a text as SQL."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
