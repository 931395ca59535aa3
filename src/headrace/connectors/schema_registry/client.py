"""The control plane's client of a schema registry, in Confluent's protocol. Its calls block: callers use a thread.

The egress rules resolve addresses, and the client connects to the resolved ones. It follows no redirects, uses no proxy, and limits the
size and the time of responses. Only the message of a registry's own error is shown to users.
"""

from __future__ import annotations

import json
import re
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from tempfile import NamedTemporaryFile
from typing import Any, Literal, cast
from urllib.parse import quote

import httpx

from headrace.connectors.egress import Egress
from headrace.connectors.schema_registry.options import connection
from headrace.connectors.tls import TLS_CA, TLS_CLIENT_CERT, TLS_CLIENT_KEY, TLS_VERIFY
from headrace.core.errors import ExternalError, UserError
from headrace.core.sqlstate import SqlState

SchemaType = Literal["AVRO", "PROTOBUF", "JSON"]
MESSAGE_LENGTH_MAX = 500
ANSWER_BYTES_MAX = 16 * 1024 * 1024
REFERENCES_MAX = 1000
_CONNECT_TIMEOUT_S = 10.0
_ANSWER_TIMEOUT_S = 30.0
_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
_CLASS = re.compile(r"^[\w.$]+(Exception|Error): ")
_PORTS = {"http": 80, "https": 443}
_SUBJECT_NOT_FOUND, _VERSION_NOT_FOUND, _SCHEMA_NOT_FOUND = 40401, 40402, 40403


@dataclass(frozen=True)
class Reference:
    """A schema that another schema refers to as `name`."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema of a registry, which never changes."""

    id: int
    type: SchemaType
    text: str
    references: tuple[Reference, ...] = ()


class RegistryClient:
    """Client of one registry. Schemas by id or version are requested once.

    Methods raise ExternalError 57015 when the registry is away, refuses the user or is none, with the step that failed.
    """

    def __init__(self, properties: Mapping[str, str], egress: Egress) -> None:
        self._settings = connection(properties)
        self._egress = egress
        self._tls = _tls(self._settings)
        self._by_id: dict[int, RegisteredSchema] = {}
        self._by_version: dict[tuple[str, int], RegisteredSchema] = {}

    def test(self) -> None:
        """Check that the registry answers and accepts the credentials."""
        self._content(self._ask("GET", "/schemas/types"), "the types of schemas")

    def latest(self, subject: str) -> RegisteredSchema | None:
        """Return the newest schema of a subject, None if the subject does not exist."""
        answer = self._ask("GET", f"/subjects/{_path(subject)}/versions/latest")
        if answer.code in (_SUBJECT_NOT_FOUND, _VERSION_NOT_FOUND):
            return None
        return self._schema(self._content(answer, f"the subject {subject!r}"))

    def by_id(self, identifier: int) -> RegisteredSchema:
        """Raises UserError 3D010 for an id that the registry does not know."""
        if identifier not in self._by_id:
            answer = self._content(
                self._ask("GET", f"/schemas/ids/{identifier:d}"), f"the schema {identifier}"
            )
            self._by_id[identifier] = self._schema({**answer, "id": identifier})
        return self._by_id[identifier]

    def by_version(self, subject: str, version: int) -> RegisteredSchema:
        """Raises UserError 3D010 for a version that the registry does not know."""
        key = (subject, version)
        if key not in self._by_version:
            answer = self._ask("GET", f"/subjects/{_path(subject)}/versions/{version:d}")
            body = self._content(answer, f"version {version} of the subject {subject!r}")
            self._by_version[key] = self._schema(body)
        return self._by_version[key]

    def resolved(self, schema: RegisteredSchema) -> tuple[str, ...]:
        """Return the texts of all schemas that a schema refers to, in order of their dependencies."""
        return tuple(text for _, text in self.referenced(schema))

    def referenced(self, schema: RegisteredSchema) -> tuple[tuple[str, str], ...]:
        """Return the same as `resolved`, with the names of the references."""
        seen: set[Reference] = set()
        ordered: list[tuple[str, str]] = []

        def add(references: Sequence[Reference]) -> None:
            for reference in references:
                if reference in seen:
                    continue
                if len(seen) == REFERENCES_MAX:
                    raise UserError(
                        SqlState.CONFIGURATION_LIMIT_EXCEEDED,
                        f"expected a schema with at most {REFERENCES_MAX} references, found more",
                    )
                seen.add(reference)
                referenced = self.by_version(reference.subject, reference.version)
                add(referenced.references)
                ordered.append((reference.name, referenced.text))

        add(schema.references)
        return tuple(ordered)

    def compatibility(
        self, subject: str, schema: str, kind: SchemaType, references: Sequence[Reference] = ()
    ) -> list[str]:
        """Return why a schema could not become the subject's next version, in the registry's words; [] if it could."""
        path = f"/compatibility/subjects/{_path(subject)}/versions/latest?verbose=true"
        answer = self._ask("POST", path, _body(schema, kind, references))
        if answer.code in (_SUBJECT_NOT_FOUND, _VERSION_NOT_FOUND):
            return []
        verdict = self._content(answer, f"the subject {subject!r}")
        if verdict.get("is_compatible") is True:
            return []
        messages = verdict.get("messages")
        texts = [str(message) for message in messages] if isinstance(messages, list) else []
        return texts or ["the registry reports no reason"]

    def register(
        self, subject: str, schema: str, kind: SchemaType, references: Sequence[Reference] = ()
    ) -> int:
        """Return the id of a schema, which becomes the subject's next version if it is new.

        Raises UserError 42P16 when the registry refuses it: as not compatible with the versions there are, or as no schema.
        """
        answer = self._ask("POST", f"/subjects/{_path(subject)}/versions", _body(schema, kind, references))
        if answer.status in (409, 422):
            raise UserError(
                SqlState.INVALID_RELATION_DEFINITION,
                f"the schema registry refuses the schema for the subject {subject!r}: {answer.message}",
                hint="Change the columns to be compatible with the subject's versions, or write to another topic, whose subject is new.",
            )
        identifier = self._content(answer, f"the subject {subject!r}").get("id")
        if not isinstance(identifier, int):
            raise self._no_registry("an id is missing")
        return identifier

    def _schema(self, answer: Mapping[str, Any]) -> RegisteredSchema:
        match answer:
            case {"id": int() as identifier, "schema": str() as text}:
                kind = answer.get("schemaType") or "AVRO"
                if kind not in ("AVRO", "PROTOBUF", "JSON"):
                    raise self._no_registry("a schema is of no known type")
                try:
                    references = tuple(
                        Reference(str(one["name"]), str(one["subject"]), int(one["version"]))
                        for one in answer.get("references") or ()
                    )
                except (KeyError, TypeError, ValueError):
                    raise self._no_registry("a reference is incomplete") from None
                return RegisteredSchema(identifier, cast(SchemaType, kind), text, references)
        raise self._no_registry("a schema is incomplete")

    def _content(self, answer: _Answer, what: str) -> dict[str, Any]:
        if answer.status == 200:
            return answer.body if isinstance(answer.body, dict) else {"list": answer.body}
        if answer.code in (_SUBJECT_NOT_FOUND, _VERSION_NOT_FOUND, _SCHEMA_NOT_FOUND):
            raise UserError(
                SqlState.DESCRIPTOR_NOT_FOUND,
                f"the schema registry does not know {what}",
                hint="Check the name, and that the store has the right registry: DESCRIBE STORE shows it.",
            )
        if answer.code is None:
            raise self._no_registry(f"HTTP status {answer.status}")
        raise ExternalError(
            SqlState.REMOTE_UNAVAILABLE,
            f"the schema registry answers {answer.code}: {answer.message}",
            hint="Ask the registry's operator for details.",
        )

    def _no_registry(self, problem: str) -> ExternalError:
        return ExternalError(
            SqlState.REMOTE_UNAVAILABLE,
            f"{self._settings['uris']} did not answer as a schema registry: {problem}",
            hint="Check 'uris', its path too: Apicurio's, for instance, ends in /apis/ccompat/v7.",
        )

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> _Answer:
        """Return the answer of the first address that answers; raises the last one's ExternalError."""
        failure: ExternalError | None = None
        for base in self._settings["uris"].split(","):
            try:
                answer = self._ask_at(base, method, path, body)
            except ExternalError as error:
                failure = error
                continue
            if answer.status in (401, 403):
                raise _unavailable(
                    f"authentication: the schema registry at {base} refused the credentials",
                    "Check the user and password, key and secret, or token of the registry, and what they may do.",
                )
            if answer.status >= 500:
                failure = _unavailable(
                    f"the schema registry at {base} answers HTTP {answer.status}", "Try again later."
                )
                continue
            return answer
        raise failure or self._no_registry("no address")

    def _ask_at(self, base: str, method: str, path: str, body: Mapping[str, Any] | None) -> _Answer:
        url = httpx.URL(base + path)
        addresses = self._egress.addresses(url.host, url.port or _PORTS[url.scheme])
        for last, address in (
            (index == len(addresses) - 1, base_url) for index, base_url in enumerate(addresses)
        ):
            try:
                return self._exchange(url, address, method, body)
            except httpx.HTTPError as error:
                if last or not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
                    raise self._failed(base, error) from None
        raise self._no_registry("no address")

    def _failed(self, base: str, error: httpx.HTTPError) -> ExternalError:
        """Return the step at which an exchange ended."""
        reason = _tls_reason(error)
        if reason is not None:
            return _unavailable(
                f"TLS: there is no safe connection to {base}: {reason}",
                "Check 'tls.ca_cert_file' (the authorities to trust), 'tls.client.cert_file', and scheme and host in 'uris'.",
            )
        match error:
            case httpx.ConnectTimeout():
                return _unavailable(
                    f"TCP: {base} does not answer within {_CONNECT_TIMEOUT_S:.0f} s", _REACHABLE
                )
            case httpx.ConnectError():
                return _unavailable(f"TCP: nothing accepts connections at {base}", _REACHABLE)
            case httpx.TimeoutException():
                return _unavailable(f"{base} accepts connections and does not answer in time", _REACHABLE)
        return self._no_registry("it does not speak HTTP as expected")

    def _exchange(self, url: httpx.URL, address: str, method: str, body: Mapping[str, Any] | None) -> _Answer:
        headers = {"Host": url.netloc.decode(), "Accept": f"{_MEDIA_TYPE}, application/json"}
        if body is not None:
            headers["Content-Type"] = _MEDIA_TYPE
        auth: httpx.Auth | None = None
        if self._settings["auth"] == "basic":
            auth = httpx.BasicAuth(self._settings["username"], self._settings["password"])
        elif self._settings["auth"] == "token":
            headers["Authorization"] = f"Bearer {self._settings['token']}"
        client = httpx.Client(
            verify=self._tls,
            timeout=httpx.Timeout(_ANSWER_TIMEOUT_S, connect=_CONNECT_TIMEOUT_S),
            follow_redirects=False,
            trust_env=False,
        )
        with (
            client,
            client.stream(
                method,
                url.copy_with(host=address),
                headers=headers,
                content=None if body is None else json.dumps(body),
                auth=auth,
                extensions={"sni_hostname": url.host},
            ) as response,
        ):
            return self._read(response)

    def _read(self, response: httpx.Response) -> _Answer:
        deadline = time.monotonic() + _ANSWER_TIMEOUT_S
        content = bytearray()
        for part in response.iter_bytes():
            content += part
            if len(content) > ANSWER_BYTES_MAX:
                raise self._no_registry(f"an answer of more than {ANSWER_BYTES_MAX} bytes")
            if time.monotonic() > deadline:
                raise self._no_registry(f"an answer that takes longer than {_ANSWER_TIMEOUT_S:.0f} s")
        try:
            body = json.loads(bytes(content))
        except (ValueError, RecursionError):
            if response.status_code == 200:
                raise self._no_registry("an answer that is not JSON") from None
            return _Answer(response.status_code, None)
        return _Answer(response.status_code, body)


@dataclass(frozen=True)
class _Answer:
    status: int
    body: Any

    @property
    def code(self) -> int | None:
        """The code of a registry's error."""
        code = self.body.get("error_code") if isinstance(self.body, dict) else None
        return code if self.status != 200 and isinstance(code, int) else None

    @property
    def message(self) -> str:
        """The shortened message of a registry's error."""
        message = self.body.get("message") if isinstance(self.body, dict) else None
        if not isinstance(message, str):
            return f"HTTP status {self.status}"
        return _CLASS.sub("", message)[:MESSAGE_LENGTH_MAX]


@lru_cache(maxsize=64)
def _client(properties: tuple[tuple[str, str], ...], egress: Egress) -> RegistryClient:
    return RegistryClient(dict(properties), egress)


def registry_client(properties: Mapping[str, str], egress: Egress) -> RegistryClient:
    """Return the client of a registry with these properties, with the schemas that it has already been asked for."""
    return _client(tuple(sorted(properties.items())), egress)


_REACHABLE = "Check 'uris', and that the server's machine reaches it."


def _unavailable(message: str, hint: str) -> ExternalError:
    return ExternalError(SqlState.REMOTE_UNAVAILABLE, message, hint=hint)


def _tls(settings: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=settings.get(TLS_CA.name))
    context.check_hostname = settings.get(TLS_VERIFY.name) != "FALSE"
    if TLS_CLIENT_CERT.name in settings:
        # Python's ssl only reads these from files.
        with NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(settings[TLS_CLIENT_KEY.name] + settings[TLS_CLIENT_CERT.name])
            file.flush()
            context.load_cert_chain(file.name)
    return context


def _tls_reason(error: BaseException | None) -> str | None:
    """Return the reason of a TLS failure, None for any other."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return error.verify_message
        if isinstance(error, ssl.SSLError):
            alert = "ALERT" in (error.reason or "")
            return "the server refuses it" if alert else "the server does not speak TLS as expected"
        error = error.__cause__ or error.__context__
    return None


def _path(subject: str) -> str:
    return quote(subject, safe="")


def _body(schema: str, kind: SchemaType, references: Sequence[Reference]) -> dict[str, Any]:
    named = [{"name": one.name, "subject": one.subject, "version": one.version} for one in references]
    return {"schema": schema, "schemaType": kind, "references": named}
