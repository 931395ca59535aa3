"""Front of a Databricks workspace's warehouse: HTTP with and without TLS, tokens, OAuth, and COPY INTO.

Requests are Thrift messages, which go to Spark's server over one connection, in turns. Three of its answers are completed: Databricks'
client needs to be told what only Databricks' own server says.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from databricks.sql.thrift_api.TCLIService import TCLIService, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TMessageType
from thrift.transport import TSocket, TTransport

from harness.authority import Authority
from harness.s3 import S3Client

TOKEN, WAREHOUSE = "dapi-stand-in", "4a3b2c1d0e9f8a7b"
CLIENT, SECRET = "service-principal", "s3cr:et;'\"="
_COPY = re.compile(
    r"COPY INTO (?P<into>.+) FROM \(SELECT (?P<columns>.+) FROM '(?P<folder>s3://.+/)'\) FILEFORMAT = PARQUET\Z"
)
_SET = re.compile(r"SET spark\.databricks\.\S+ =")
_COLUMNS = ttypes.TSparkRowSetType.COLUMN_BASED_SET


class Front:
    """Server on a loopback port before Spark's Thrift server. `statements` are all that were requested.

    With `settings` False it refuses settings of Delta's, as SQL warehouses do.
    """

    def __init__(self, folder: Path, server: int, bucket: S3Client) -> None:
        self.statements: list[str] = []
        self.settings = True
        self.tokens = {TOKEN}
        self.path = f"/sql/1.0/warehouses/{WAREHOUSE}"
        self.authority = Authority()
        self._bucket = bucket
        self._loaded: set[tuple[str, str]] = set()
        self._turn = threading.Lock()
        self._transport = TTransport.TBufferedTransport(TSocket.TSocket("127.0.0.1", server))
        self._transport.open()
        self._server = TBinaryProtocol(self._transport)
        pem = folder / "front.pem"
        pem.write_bytes(self.authority.key_and_certificate("localhost"))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        self._doors = [ThreadingHTTPServer(("127.0.0.1", 0), _handler(self)) for _ in range(2)]
        self.port, self.tls_port = (door.server_address[1] for door in self._doors)
        self._doors[1].socket = context.wrap_socket(self._doors[1].socket, server_side=True)
        for door in self._doors:
            door.daemon_threads = True
            threading.Thread(target=door.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self) -> None:
        """Stops listening."""
        for door in self._doors:
            door.shutdown()
            door.server_close()
        self._transport.close()

    def answer(self, message: bytes) -> bytes:
        """Return the answer to a Thrift message."""
        protocol = TBinaryProtocol(TTransport.TMemoryBuffer(message))
        name, _, number = protocol.readMessageBegin()
        asked = getattr(TCLIService, f"{name}_args")()
        asked.read(protocol)
        with self._turn:
            if name == "OpenSession":
                asked.req.client_protocol = ttypes.TProtocolVersion.HIVE_CLI_SERVICE_PROTOCOL_V8
            elif name == "ExecuteStatement":
                self.statements.append(asked.req.statement)
                self._translate(asked.req)
            kind, reply = self._ask(name, asked)
        out = TTransport.TMemoryBuffer()
        protocol = TBinaryProtocol(out)
        protocol.writeMessageBegin(name, kind, number)
        reply.write(protocol)
        protocol.writeMessageEnd()
        return bytes(out.getvalue())

    def token(self, client: str, form: dict[str, list[str]]) -> str | None:
        """Return a new token of a service principal, None for an unknown one."""
        right = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if client != f"Basic {right}" or form != {
            "grant_type": ["client_credentials"],
            "scope": ["all-apis"],
        }:
            return None
        token = f"oauth-{uuid.uuid4().hex}"
        self.tokens.add(token)
        return token

    def _ask(self, name: str, asked: Any) -> tuple[int, Any]:
        self._server.writeMessageBegin(name, TMessageType.CALL, 0)
        asked.write(self._server)
        self._server.writeMessageEnd()
        self._transport.flush()
        _, kind, _ = self._server.readMessageBegin()
        reply = (
            TApplicationException()
            if kind == TMessageType.EXCEPTION
            else getattr(TCLIService, f"{name}_result")()
        )
        reply.read(self._server)
        self._server.readMessageEnd()
        success = getattr(reply, "success", None)
        if success is not None and name == "OpenSession":
            success.serverProtocolVersion = ttypes.TProtocolVersion.SPARK_CLI_SERVICE_PROTOCOL_V2
        elif success is not None and name == "FetchResults":
            success.resultSetMetadata = ttypes.TGetResultSetMetadataResp(
                status=success.status, resultFormat=_COLUMNS, lz4Compressed=False
            )
        elif success is not None and name == "GetResultSetMetadata":
            success.resultFormat, success.lz4Compressed = _COLUMNS, False
        return kind, reply

    def _translate(self, request: Any) -> None:
        """Translate Databricks' own statements for Spark: COPY INTO loads each file into a table once."""
        if not self.settings and _SET.match(request.statement):
            request.statement = "SELECT raise_error('[CONFIG_NOT_AVAILABLE] Configuration is not available.')"
        copy = _COPY.match(request.statement)
        if copy is None:
            return
        table, prefix = copy["into"], urlsplit(copy["folder"]).path.removeprefix("/")
        files = [key for key in self._bucket.keys(prefix) if (table, key) not in self._loaded]
        request.statement = "SELECT 0"
        if files:
            names = ",".join(key.removeprefix(prefix) for key in files)
            insert = (
                f"INSERT INTO {table} SELECT {copy['columns']} FROM parquet.`{copy['folder']}{{{names}}}`"
            )
            _, reply = self._ask(
                "ExecuteStatement",
                TCLIService.ExecuteStatement_args(
                    ttypes.TExecuteStatementReq(sessionHandle=request.sessionHandle, statement=insert)
                ),
            )
            assert reply.success.status.statusCode == ttypes.TStatusCode.SUCCESS_STATUS, reply
            self._loaded |= {(table, key) for key in files}


def _handler(front: Front) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            who = self.headers["Authorization"] or ""
            if self.path == "/oidc/v1/token":
                token = front.token(who, parse_qs(body.decode()))
                refused = {"error": "invalid_client"}
                answer = (
                    {"access_token": token, "token_type": "Bearer", "expires_in": 3600} if token else refused
                )
                self._send(200 if token else 401, "application/json", json.dumps(answer).encode())
            elif who.removeprefix("Bearer ") not in front.tokens:
                self._send(403, "application/json", b'{"error_code":"403","message":"Invalid access token."}')
            elif self.path != front.path:
                self._send(404, "application/json", b'{"error_code":"RESOURCE_DOES_NOT_EXIST"}')
            else:
                self._send(200, "application/x-thrift", front.answer(body))

        def log_message(self, *_: object) -> None:
            pass

        def _send(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler
