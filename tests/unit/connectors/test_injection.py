"""Hostile text in each property of each store type: it is refused where it stands, or it stays that text and reaches nothing else."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from types import SimpleNamespace
from typing import Any

import oracledb
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from psycopg import conninfo, sql
from sqlglot.dialects.dialect import Dialect
from sqlglot.tokens import TokenType

from harness.authority import Authority
from headrace.connectors.base import StoreDescriptor
from headrace.connectors.clickhouse import client as clickhouse
from headrace.connectors.iceberg.spark.catalog import catalog_settings
from headrace.connectors.kafka.client import client_options, spark_options
from headrace.connectors.oracle import client as oracle
from headrace.connectors.postgresql import connection as postgresql
from headrace.connectors.registry import STORE_TYPES, connector
from headrace.connectors.snowflake import client as snowflake
from headrace.core.errors import Span, UserError
from headrace.core.properties import PropertyReader, PropertySpec, Scope, Specs, of_scope
from headrace.core.sqlstate import SqlState
from headrace.formats.types import name_sql, text_sql
from headrace.sql.ast import Property

HOSTILE = (
    "'; DROP TABLE x; --", '"; DROP TABLE x; --', "`; DROP TABLE x; --", "\\'; DROP TABLE x; --", "x' OR '1'='1",
    'a"b', "a``b", "a\\", "a]b", "/* a", "-- a", "$$a$$", "a, b", "a.b",
    "a\nb", "a\r\nX-Evil: 1", "a\tb", "a\0b", "\0", "a\x1fb", "a\x7fb",
    "${env:HOME}", "${sys:user.home}", "${file:/etc/passwd}", "#{7*7}", "{{a}}", "%s", "%(a)s", "?", ":1",
    "a;key=value", "a;ssl.truststore.location=/etc/passwd", 'x" required evil="1";', "a required;", "a;;b",
    "a&b=c", "a?b=c", "a#b", "a@b", "a:b", "a=b", "host=evil user=x", "a host=evil", "-c x=y", "%00", "a%0Ab",
    "../x", "a/../../b", "/etc/passwd", "%2e%2e%2f", "a//b", "*", "a[SYS]", "(DESCRIPTION=(ADDRESS=(HOST=evil)))",
    "file:///etc/passwd", "jar:file:/x!/y", "ldap://evil/x", "javascript:x", "s3://b/../c", "hdfs://evil/x",
    "jdbc:postgresql://evil/x?y=z", "postgresql://h/d?options=-c%20x", "oracle://h/s?x=y", "oracle://h/s)(x=y",
    "clickhouse://h/d?x=y", "https://h/?x=1", "https://u:hunter2@h", "https://h\n.evil.example", "https://h evil",
    "kafka:9092,evil:1;x", "b:1\nsasl.jaas.config=x", "h:1/x", "https://[::1", "http://h:99999", "//evil",
)  # fmt: skip

_AUTHORITY = Authority()
_PAIR = _AUTHORITY.key_and_certificate("localhost").decode()
_CERTIFICATE = _PAIR[_PAIR.index("-----BEGIN CERTIFICATE") :]
_TLS = {
    "tls.ca_cert_file": _AUTHORITY.pem,
    "tls.disabled": "FALSE",
    "tls.verify_server_hostname": "TRUE",
    "tls.client.cert_file": _CERTIFICATE,
    "tls.client.key_file": _PAIR[: _PAIR.index("-----BEGIN CERTIFICATE")],
}
_SERVER_TLS = dict(list(_TLS.items())[:3])
_KEYS = {"aws.access_key_id": "AKIA1", "aws.secret_access_key": "not", "aws.region": "us-east-1"}
_ROLE = {"aws.iam_role_arn": "arn:aws:iam::123456789012:role/reader", "aws.iam_external_id": "x-1"}
_RSA = (
    rsa.generate_private_key(65537, 2048)
    .private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"word"))
    .decode()
)
_PASSWORD = {"kafka.sasl.username": "me", "kafka.sasl.password": "not"}
_OAUTH = "kafka.sasl.oauthbearer."
_KAFKA = (
    {"uris": "b:1", "kafka.sasl.hash_function": "PLAIN", **_PASSWORD, "security.protocol": "SASL_SSL", **_TLS},
    {
        **{"uris": "b:1", "kafka.sasl.hash_function": "OAUTHBEARER", f"{_OAUTH}token.endpoint.url": "https://i/t"},
        **{f"{_OAUTH}client.id": "c", f"{_OAUTH}client.secret": "not", f"{_OAUTH}scope": "s", f"{_OAUTH}extensions": "a=b"},
    },
    {
        **{"uris": "b:1", "kafka.sasl.hash_function": "AWS_MSK_IAM", "kafka.msk.aws_region": "us-east-1"},
        "kafka.msk.iam_role_arn": _ROLE["aws.iam_role_arn"],
    },
)  # fmt: skip
_SNOWFLAKE = {
    **{"uris": "https://a.snowflakecomputing.com", "snowflake.username": "me", "snowflake.account_id": "a"},
    **{"snowflake.cloud.region": "r", "snowflake.role_name": "r", "snowflake.warehouse_name": "w", "tls.disabled": "FALSE"},
}  # fmt: skip
_DATABRICKS = {
    **{"uris": "https://w.cloud.databricks.com", "databricks.warehouse_port": "443", "databricks.warehouse_id": "a1"},
    **{"databricks.cloud.s3.bucket": "lake", "databricks.cloud.region": "us-east-1", "tls.disabled": "FALSE"},
    **{"databricks.cloud.s3.endpoint": "https://s3.example", "tls.ca_cert_file": _AUTHORITY.pem},
    **{name: _KEYS[name] for name in ("aws.access_key_id", "aws.secret_access_key")},
    **_ROLE,
}  # fmt: skip
_ICEBERG = {
    **{"tls.disabled": "FALSE", "iceberg.catalog.id": "c", "iceberg.s3.endpoint": "https://s3.example"},
    **{"iceberg.s3.path_style_access": "true", **_KEYS, **_ROLE},
}
STORES: Mapping[str, tuple[Mapping[str, str], ...]] = {
    "kafka": _KAFKA,
    "confluent_kafka": _KAFKA,
    "postgresql": (
        {"uris": "postgresql://h/d", "postgres.username": "me", "postgres.password": "not", **_TLS},
    ),
    "kinesis": (
        {
            **{"uris": "https://h", "tls.disabled": "FALSE", "tls.ca_cert_file": _AUTHORITY.pem, "aws.region": "us-east-1"},
            **{"kinesis.access_key_id": "AKIA1", "kinesis.secret_access_key": "not"},
            **{"kinesis.iam_role_arn": _ROLE["aws.iam_role_arn"], "kinesis.account.id": "123456789012"},
        },
    ),
    "clickhouse": (
        {
            **{"uris": "clickhouse://h/d", "clickhouse.username": "me", "clickhouse.password": "not"},
            **{**_SERVER_TLS, "tls.disabled": "TRUE"},
        },
    ),
    "snowflake": (
        _SNOWFLAKE | {"snowflake.client.key_file": _RSA, "snowflake.client.key_passphrase": "word"},
        _SNOWFLAKE | {"snowflake.password": "not"},
        _SNOWFLAKE | {"snowflake.token": "not", "snowflake.token.type": "oauth"},
    ),
    "s3": ({"uris": "https://h/lake", "tls.disabled": "FALSE", "tls.ca_cert_file": _AUTHORITY.pem, **_KEYS, **_ROLE},),
    "oracle": ({"uris": "oracle://h/s", "oracle.username": "me", "oracle.password": "not", **_TLS},),
    "databricks": (
        _DATABRICKS | {"databricks.app_token": "not"},
        _DATABRICKS | {"databricks.oauth.client_id": "c", "databricks.oauth.client_secret": "not"},
    ),
    "iceberg_rest": (
        _ICEBERG | {"uris": "https://h/c", "iceberg.rest.token": "not"},
        {
            **{**_ICEBERG, "uris": "https://h/c", "iceberg.rest.client_id": "c", "iceberg.rest.client_secret": "not"},
            **{"iceberg.rest.client_scope": "s", "iceberg.rest.oauth2_server_uri": "https://h/t"},
        },
    ),
    "iceberg_glue": (_ICEBERG | {"uris": "https://h", "iceberg.warehouse.default_path": "s3://lake/x"},),
    "generator": ({"generator.start.timestamp": "1000"},),
}  # fmt: skip
"""Stores that may be, by their type: each of its properties is given in one of them."""
NEEDED: Mapping[str, Mapping[str, str]] = {
    "snowflake": {"snowflake.db.name": "d", "snowflake.schema.name": "s"},
    "oracle": {"oracle.schema.name": "s"},
    "databricks": {"databricks.catalog.name": "c", "databricks.schema.name": "s"},
    "s3": {"s3.uri": "s3://lake/x", "value.format": "json"},
    "postgresql": {"postgresql.db.name": "d"},
}
"""Without which nothing over a store is read."""


PLACE, ELSEWHERE = Span(3, 7, 1, 4), Span(9, 12, 1, 10)


def _reader(kind: StoreDescriptor, scope: Scope, given: Mapping[str, str], hostile: str) -> PropertyReader:
    entries = [Property(name, text, PLACE if name == hostile else ELSEWHERE) for name, text in given.items()]
    return PropertyReader(entries, _specs(kind.type, scope), what="it")


@cache
def _specs(type_: str, scope: Scope) -> Specs:
    return of_scope(connector(type_).properties, scope)


def _refused(error: UserError, spec: PropertySpec[Any], text: str) -> None:
    shown = error.text()
    assert error.state in (
        SqlState.INVALID_PARAMETER,
        SqlState.MISSING_PARAMETER,
        SqlState.FEATURE_NOT_SUPPORTED,
    )
    assert error.span == PLACE or (error.span == ELSEWHERE and spec.name in shown), shown
    assert error.hint or re.search(r"must be|expected", shown), shown
    assert "hunter2" not in shown or not re.search(r"ur[il]s?$|endpoint$", spec.name), shown
    assert not (spec.secret and len(text) > 5 and text in shown), shown


def _is_same(stored: str, text: str) -> bool:
    """True if the stored text equals the input: an address may lose blanks and slashes around it, and "jdbc:" before it."""
    return stored == text or stored.strip("/ ") == text.strip().removeprefix("jdbc:").strip("/ ")


def _parameters() -> Iterator[Any]:
    for type_ in STORE_TYPES:
        for spec in connector(type_).properties:
            yield pytest.param(type_, spec, id=f"{type_}-{spec.name}")


@pytest.mark.parametrize(("type_", "spec"), list(_parameters()))
def test_hostile_text_is_refused_or_is_itself(type_: str, spec: PropertySpec[Any]) -> None:
    kind = connector(type_)
    if spec.scope & Scope.STORE:
        # The last: a key of the first of Snowflake's takes long to decrypt.
        *_, given = (given for given in STORES[type_] if spec.name in given)
        _of_store(kind, spec, given)
    else:
        for scope in spec.scope:
            _of_others(kind, spec, scope)


def _of_store(kind: StoreDescriptor, spec: PropertySpec[Any], given: Mapping[str, str]) -> None:
    def read(text: str) -> dict[str, str]:
        reader = _reader(kind, Scope.STORE, given | {spec.name: text}, spec.name)
        properties = kind.read(reader)
        reader.finish()
        return properties

    usual = read(given[spec.name])
    for text in HOSTILE:
        try:
            stored = read(text)
        except UserError as error:
            _refused(error, spec, text)
            continue
        assert stored.keys() == usual.keys()
        assert {name for name in stored if stored[name] != usual[name]} <= {spec.name}
        assert spec.name not in stored or _is_same(stored[spec.name], text)
        if kind.type in SENT:
            assert SENT[kind.type](stored).get(spec.name, text) == text


def _of_others(kind: StoreDescriptor, spec: PropertySpec[Any], scope: Scope) -> None:
    name = f"{spec.name}retention.ms" if spec.open else spec.name
    there = {known.name for known in _specs(kind.type, scope)}
    needed = {other: text for other, text in NEEDED.get(kind.type, {}).items() if other in there}
    takers: list[tuple[Callable[[PropertyReader], Mapping[str, str]], Mapping[str, str]]] = []
    for take in _takers(kind, scope, spec):
        usual: Mapping[str, str] = {}
        with suppress(UserError):
            usual = take(_reader(kind, scope, needed, name))
        takers.append((take, usual))
    for text in HOSTILE:
        for take, usual in takers:
            try:
                taken = take(_reader(kind, scope, needed | {name: text}, name))
            except UserError as error:
                _refused(error, spec, text)
                continue
            changed = {key: value for key, value in taken.items() if usual.get(key) != value}
            # A client's own name of a setting, and "retention.ms" of the open one, have no prefix.
            assert changed.keys() <= {spec.name, name.split(".", 2)[-1]}, changed
            assert all(_is_same(value, text) for value in changed.values()), changed
        if scope in (Scope.RELATION, Scope.SINK):
            _of_path(kind, spec, scope, needed, text)


def _of_path(
    kind: StoreDescriptor, spec: PropertySpec[Any], scope: Scope, needed: Mapping[str, str], text: str
) -> None:
    try:
        if not spec.open:
            _reader(kind, scope, {spec.name: text}, spec.name).take(spec)
        path = kind.path(_reader(kind, scope, needed | {spec.name: text}, spec.name), "t")
    except UserError as error:
        _refused(error, spec, text)
        return
    # Dots part the levels of a namespace.
    usual = {*needed.values(), "public", "default", "t", *(("lake", "x") if kind.type == "s3" else ())}
    assert ".".join(part for part in path if part not in usual) in ("", text), path


def _takers(
    kind: StoreDescriptor, scope: Scope, spec: PropertySpec[Any]
) -> Iterator[Callable[[PropertyReader], Mapping[str, str]]]:
    """Return functions that read the properties of a scope, and return them as texts."""
    if scope in (Scope.RELATION, Scope.SOURCE) and kind.source is not None:
        yield kind.source.options
    for sink in (kind.record_sink, kind.row_sink):
        if sink is not None and scope in (Scope.RELATION, Scope.SINK, Scope.INSERT, Scope.VIEW):
            yield sink.options
    if scope is Scope.TABLE and kind.table_source is not None:
        yield kind.table_source.options
    if scope is Scope.OPTIMIZE and kind.optimizer is not None:
        yield kind.optimizer.options
    if scope is Scope.PRINT:
        yield kind.print_options
    if scope is Scope.RECORD:
        yield kind.record_options
    if scope is Scope.ENTITY:
        yield lambda reader: reader.take_all(spec) if spec.open else {spec.name: _text(reader.take(spec))}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


@pytest.mark.parametrize("type_", STORE_TYPES)
def test_no_other_name_is_a_property(type_: str) -> None:
    # Many scopes have the same properties.
    different: list[Specs] = []
    for scope in Scope:
        if (specs := _specs(type_, scope)) not in different:
            different.append(specs)
    for specs in different:
        for number, text in enumerate(HOSTILE):
            known = specs[number % len(specs)].name if specs else ""
            for name in (text, known + text, text + known):
                if any(spec.open and name.startswith(spec.name) and name.isprintable() for spec in specs):
                    continue  # a topic's setting, which its broker knows or not
                with pytest.raises(UserError) as caught:
                    PropertyReader([Property(name, "x", PLACE)], specs, what="it")
                assert (caught.value.state, caught.value.span) == (SqlState.INVALID_PARAMETER, PLACE)
                assert caught.value.hint


# --- what the clients' libraries are given


def _of_kafka(store: Mapping[str, str]) -> dict[str, str]:
    if store["kafka.sasl.hash_function"] != "PLAIN":
        return {}
    options, others = spark_options(store), client_options(store)
    jaas = re.fullmatch(
        r'\S+ required username="((?:[^"\\]|\\.)*)" password="((?:[^"\\]|\\.)*)";',
        options["kafka.sasl.jaas.config"],
    )
    assert jaas is not None
    user, password = (re.sub(r"\\(.)", r"\1", text) for text in jaas.groups())
    assert (user, password) == (others["sasl.username"], others["sasl.password"])
    return {"kafka.sasl.username": user, "kafka.sasl.password": password}


def _of_postgresql(store: Mapping[str, str]) -> dict[str, str]:
    with postgresql._parameters(store, None) as parameters:
        read = conninfo.conninfo_to_dict(conninfo.make_conninfo(**parameters))
    assert read == {name: str(value) for name, value in parameters.items() if value is not None}
    assert read["host"] == "h" or "//h" not in store["uris"]
    return {"postgres.username": str(read["user"]), "postgres.password": str(read["password"])}


def _of_clickhouse(store: Mapping[str, str]) -> dict[str, str]:
    with clickhouse.ClickHouse(store) as server:
        request = next(server._http.auth.auth_flow(server._http.build_request("POST", server._url)))  # type: ignore[union-attr]
    scheme, _, packed = request.headers["authorization"].partition(" ")
    assert (scheme, request.url.query) == ("Basic", b"")
    user, _, password = base64.b64decode(packed).decode().partition(":")
    return {"clickhouse.username": user, "clickhouse.password": password}


def _of_oracle(store: Mapping[str, str]) -> dict[str, str]:
    read = oracle._connect(SimpleNamespace(connect=oracledb.ConnectParams), store, None)
    assert (read.proxy_user, read.host, read.service_name) == (None, "h", "s") or store[
        "uris"
    ] != "oracle://h/s"
    assert read.get_connect_string().count("HOST=") == 1
    return {"oracle.username": read.user}


def _of_iceberg(store: Mapping[str, str]) -> dict[str, str]:
    settings = catalog_settings(store)
    assert not {name for name in settings if re.search(r"[^A-Za-z0-9.-]", name)}
    if "credential" not in settings:
        return {}
    user, _, secret = settings["credential"].partition(":")
    named = {"iceberg.rest.client_id": user, "iceberg.rest.client_secret": secret}
    return named | {"iceberg.rest.client_scope": settings["scope"]}


SENT: Mapping[str, Callable[[Mapping[str, str]], dict[str, str]]] = {
    "kafka": _of_kafka,
    "confluent_kafka": _of_kafka,
    "postgresql": _of_postgresql,
    "clickhouse": _of_clickhouse,
    "oracle": _of_oracle,
    "iceberg_rest": _of_iceberg,
    "iceberg_glue": _of_iceberg,
}
"""What a library that makes a text of several properties reads out of it again. Others are given each for itself."""


@pytest.mark.parametrize(
    ("dialect", "name", "literal"),
    [
        ("postgres", lambda text: sql.Identifier(text).as_string(None), None),
        ("clickhouse", clickhouse.identifier, clickhouse.literal),
        ("snowflake", snowflake.quoted, snowflake.literal),
        ("oracle", oracle.quoted, None),
        ("databricks", name_sql, None),
        ("spark", name_sql, text_sql),
    ],
)
@pytest.mark.parametrize("text", HOSTILE)
def test_a_name_and_a_text_are_one_token_of_the_stores_sql(
    dialect: str, name: Callable[[str], str], literal: Callable[[str], str] | None, text: str
) -> None:
    tokens = Dialect.get_or_raise(dialect).tokenize
    with suppress(UserError):
        (token,) = tokens(name(text))
        assert (token.token_type, token.text) == (TokenType.IDENTIFIER, text)
    if literal is not None:
        (token,) = tokens(literal(text))
        assert (token.token_type, token.text) == (TokenType.STRING, text)
