"""Every port that a server's processes listen on refuses who has no credentials."""

from __future__ import annotations

import socket
import stat
import subprocess
from collections import Counter
from contextlib import suppress
from pathlib import Path

import httpx
import psutil
import psycopg
import pytest

from harness.patience import PATIENCE_S, until
from harness.process import HeadraceProcess
from harness.strangers import REFUSALS, STRANGERS, reply_to
from headrace.engine.driver.options import DriverOptions
from headrace.engine.launch import DRIVER_COMMAND
from headrace.engine.protocol import DRIVER_FAILED, DRIVER_REFUSED

pytestmark = [pytest.mark.spark]

KNOWN = {
    "server": 2,  # HTTP; PostgreSQL's protocol
    "driver": 2,  # py4j's calls from the JVM; pyspark's accumulators
    "jvm": 3,  # py4j's calls from Python; Spark's RPC; Spark's blocks
}
"""How many ports each process listens on. Whoever makes it more has to show here that the new one refuses strangers."""


def _roles(server: HeadraceProcess) -> dict[int, str]:
    roles = {server.pid: "server"}
    for process in server.descendants():
        with suppress(psutil.NoSuchProcess):
            roles[process.pid] = "jvm" if process.name() == "java" else "driver"
    return roles


def _listeners(server: HeadraceProcess) -> list[tuple[str, tuple[str, int]]]:
    """(role, address) of every TCP port that any process of the tree listens on."""
    listeners = []
    for pid, role in _roles(server).items():
        with suppress(psutil.NoSuchProcess):
            listeners += [
                (role, (connection.laddr.ip, connection.laddr.port))
                for connection in psutil.Process(pid).net_connections("inet")
                if connection.status == psutil.CONN_LISTEN or connection.type == socket.SOCK_DGRAM
            ]
    return listeners


def test_every_port_is_known_and_refuses_strangers(headrace_server: HeadraceProcess) -> None:
    listeners: list[tuple[str, tuple[str, int]]] = []

    def are_known() -> bool:
        listeners[:] = _listeners(headrace_server)
        return Counter(role for role, _ in listeners) == KNOWN

    # A driver that starts has fewer, and while a result goes from its JVM to Python one more.
    until(are_known, lambda: f"the ports that are known, but {listeners}")
    assert {address[0].removeprefix("::ffff:") for _, address in listeners} == {"127.0.0.1"}
    refused: Counter[bytes] = Counter()
    for role, (_, port) in listeners:
        if role == "server":
            continue
        for stranger in STRANGERS:
            answer = reply_to(("127.0.0.1", port), stranger(port))
            why = next((text for text in REFUSALS if text in answer), b"")
            assert bool(answer) == bool(why), (
                f"a port of the {role} answers {stranger.__name__}: {answer[:500]!r}"
            )
            refused[why] += 1
    # Not because nothing understood what was asked: Spark's two ports did, and py4j's.
    assert refused[REFUSALS[0]] == refused[REFUSALS[1]] == 2, refused
    assert refused[REFUSALS[2]] == 1, refused


def test_the_port_for_clients_of_postgresql_asks_for_a_password(headrace_server: HeadraceProcess) -> None:
    server_ports = {port for role, (_, port) in _listeners(headrace_server) if role == "server"}
    (port,) = server_ports - {httpx.URL(headrace_server.url).port}
    for stranger in STRANGERS:
        # Not PostgreSQL's protocol.
        assert reply_to(("127.0.0.1", port), stranger(port)) == b""
    with pytest.raises(psycopg.OperationalError, match="the user, the token or the password is wrong"):
        psycopg.connect(host="127.0.0.1", port=port, user="admin", password="wrong")
    address = {"host": "127.0.0.1", "port": port, "user": "admin", "password": headrace_server.token}
    with psycopg.connect(**address, autocommit=True) as connection:
        assert connection.execute("SELECT current_user, 1 AS one").fetchone() == ("admin", 1)


@pytest.mark.parametrize(("method", "path"), [("POST", "/v2/statements"), ("GET", "/metrics")])
def test_the_servers_own_port_asks_for_a_token(
    headrace_server: HeadraceProcess, method: str, path: str
) -> None:
    assert httpx.request(method, headrace_server.url + path, timeout=PATIENCE_S).status_code == 403


def test_sockets_in_the_file_system_are_for_their_user_alone(headrace_server: HeadraceProcess) -> None:
    paths = set()
    for pid in _roles(headrace_server):
        with suppress(psutil.NoSuchProcess):
            connections = psutil.Process(pid).net_connections("unix")
            paths.update(connection.laddr for connection in connections if connection.laddr)
    assert paths
    for path in paths:
        assert stat.S_IMODE(Path(path).parent.stat().st_mode) == 0o700, path


def test_a_cluster_without_its_secret(tmp_path: Path) -> None:
    """is not spoken to, and what is missing is said."""
    options = DriverOptions(work_dir=tmp_path, spark_master="spark://127.0.0.1:1")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()
        command = [*DRIVER_COMMAND, "--socket", str(tmp_path / "s"), "--options", options.model_dump_json()]
        driver = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert driver.returncode == DRIVER_REFUSED
    assert f"{DRIVER_FAILED}expected the secret of the Spark cluster" in driver.stderr
    assert "HEADRACE_SPARK_SECRET" in driver.stderr
