"""The tokens of OAUTHBEARER, from a real token endpoint over HTTPS, and from servers that are none."""

from __future__ import annotations

import base64
import http.server
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from moto import mock_aws

from harness.authority import Authority
from harness.issuer import CLIENT, SCOPE, SECRET, Issuer
from harness.patience import until
from headrace.connectors.kafka.tokens import ANSWER_BYTES_MAX, token
from headrace.core.errors import ExternalError

_AUTHORITY = Authority()


def store(url: str, **other: str) -> dict[str, str]:
    """A store's checked properties."""
    return {
        "uris": "b:1",
        "kafka.sasl.hash_function": "OAUTHBEARER",
        "kafka.sasl.oauthbearer.token.endpoint.url": url,
        "kafka.sasl.oauthbearer.client.id": CLIENT,
        "kafka.sasl.oauthbearer.client.secret": SECRET,
        "kafka.sasl.oauthbearer.scope": SCOPE,
        "tls.ca_cert_file": _AUTHORITY.pem,
        **other,
    }


def test_a_token_is_used_until_it_is_old(tmp_path: Path) -> None:
    with Issuer(tmp_path, _AUTHORITY, lifetime_s=1) as issuer:
        first = token(store(issuer.url))
        assert token(store(issuer.url)) is first
        assert issuer.asked == 1
        until(lambda: token(store(issuer.url)) is not first, "a new token")
        assert issuer.asked == 2
        assert first.text not in repr(first)


def failure_text(properties: dict[str, str]) -> str:
    with pytest.raises(ExternalError) as caught:
        token(properties)
    assert SECRET not in caught.value.text()
    return caught.value.message


def test_what_the_endpoint_refuses_is_said_in_the_words_of_the_standard(tmp_path: Path) -> None:
    with Issuer(tmp_path, _AUTHORITY) as issuer:
        wrong = store(issuer.url, **{"kafka.sasl.oauthbearer.client.secret": "hunter2"})
        assert (
            failure_text(wrong)
            == f"authentication: the token endpoint {issuer.url} gives no token: invalid_client"
        )
        stranger = store(issuer.url, **{"tls.ca_cert_file": Authority().pem})
        assert (
            failure_text(stranger)
            == f"authentication: no token from {issuer.url}: its certificate is not trusted"
        )
    assert "does not answer over HTTPS" in failure_text(store(issuer.url))


ANSWERS = {
    "/redirect": (302, b""),
    "/page": (200, b"<html>secrets of the network</html>"),
    "/error": (500, b'{"error": "secrets of the network"}'),
    "/list": (200, b"[1]"),
    "/lasting": (200, b'{"access_token": "t", "expires_in": "long"}'),
    "/much": (200, b" " * (ANSWER_BYTES_MAX + 1)),
}


class _Any(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, content = ANSWERS.get(self.path, (200, b'{"access_token": "followed", "expires_in": 9}'))
        self.send_response(status)
        self.send_header("Location", "/followed")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, *_arguments: object) -> None:
        """Not to standard error."""


@pytest.fixture(scope="module")
def any_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An HTTPS server of another kind."""
    pem = tmp_path_factory.mktemp("server") / "server.pem"
    pem.write_bytes(_AUTHORITY.key_and_certificate("localhost"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Any)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield f"https://localhost:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("path", ANSWERS)
def test_another_server_gives_no_token_and_nothing_of_what_it_says(path: str, any_server: str) -> None:
    message = failure_text(store(any_server + path))
    assert message.startswith("authentication: the token endpoint ")
    assert "secrets of the network" not in message


MSK = {
    "uris": "b-1.msk.example:9098",
    "kafka.sasl.hash_function": "AWS_MSK_IAM",
    "kafka.msk.aws_region": "eu-west-1",
    "kafka.msk.iam_role_arn": "arn:aws:iam::123456789012:role/reader",
}


def test_a_role_signs_a_request_to_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Amazon's brokers check these; no broker available here does."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDSERVER")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "server's")
    started = time.time()
    with mock_aws():
        issued = token(MSK)
        ended = time.time()
        assert token(MSK) is issued
    url = urlsplit(base64.urlsafe_b64decode(issued.text + "=" * (-len(issued.text) % 4)).decode())
    asked = {name: values[0] for name, values in parse_qs(url.query).items()}
    assert (url.scheme, url.hostname) == ("https", "kafka.eu-west-1.amazonaws.com")
    assert asked["Action"] == "kafka-cluster:Connect"
    key, _, scope = asked["X-Amz-Credential"].partition("/")
    assert key.startswith("ASIA")  # the role's own, and not the server's
    assert scope.endswith("/eu-west-1/kafka-cluster/aws4_request")
    assert asked["X-Amz-Security-Token"]
    assert asked["X-Amz-Expires"] == "900"
    # On a busy machine the two moments are seconds apart.
    assert started + 890 <= issued.expires_at <= ended + 910
    assert started + 620 <= issued.fresh_until <= ended + 640
    assert issued.principal == MSK["kafka.msk.iam_role_arn"]


def test_a_server_without_an_identity_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    message = failure_text({**MSK, "kafka.msk.aws_region": "eu-west-2"})
    assert message == (
        "authentication: AWS does not let the server assume the role arn:aws:iam::123456789012:role/reader: NoCredentialsError"
    )
