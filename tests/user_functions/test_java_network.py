"""Connections of confined functions in Java: to the hosts that they declare, and to no other."""

from __future__ import annotations

import errno
import json
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from harness.patience import PATIENCE_S
from headrace.engine.functions.commands import _SYSTEM, launching
from headrace.engine.functions.egress_proxy import EgressProxy
from headrace.engine.functions.protocol import CallError, WorkerEnded
from headrace.runtime.confined import SUPERVISED
from tests.user_functions.caller import Called
from tests.user_functions.web_server import web_server

Declare = Callable[..., Called]
PARAMETERS = ["VARCHAR", "VARCHAR", "INTEGER"]


def test_a_function_in_java_connects_to_the_hosts_that_it_declares_in_all_ways_of_its_library(
    called: Declare,
) -> None:
    with web_server() as port:
        fetch = called("Fetch", PARAMETERS, "VARCHAR", egress=[f"localhost:{port}", f"127.0.0.1:{port}"])
        for host in ("localhost", "127.0.0.1"):
            assert fetch(*((way, host, port) for way in ("url", "client", "selector"))) == [
                "hello",
                "hello",
                "true",
            ]
            # What a socket was set to before it was connected is kept.
            assert fetch(*((way, host, port) for way in ("socket", "timeout"))) == [f"hello true {port}"] * 2
        assert fetch(("many", "localhost", port)) == ["40"]


def test_a_function_in_java_connects_to_no_other_host_port_or_kind_of_socket(
    called: Declare, tmp_path: Path
) -> None:
    with (
        web_server() as port,
        socket.create_server(("127.0.0.1", 0)) as other,
        socket.socket(socket.AF_UNIX) as local,
    ):
        local.bind(str(tmp_path / "socket"))
        local.listen()
        fetch = called("Fetch", PARAMETERS, "VARCHAR", egress=[f"localhost:{port}"])
        assert fetch(("url", "localhost", port)) == ["hello"]
        ways = ("url", "client", "socket", "timeout", "selector")
        for way in ways:
            for host, number in (("localhost", other.getsockname()[1]), ("127.0.0.2", port)):
                with pytest.raises(CallError, match=r"Permission denied|ConnectException"):
                    fetch((way, host, number))
        for way in ("look up", "url", "client"):
            with pytest.raises(CallError, match=r"UnknownHostException|ConnectException"):
                fetch((way, "example.com", port))
        for way in ("datagram", "datagram channel", "server", "server channel", "unix"):
            with pytest.raises(CallError, match=r"not permitted|Permission denied"):
                fetch((way, str(tmp_path / "socket") if way == "unix" else "localhost", port))
        other.settimeout(0)
        local.settimeout(0)
        for listener in (other, local):
            with pytest.raises(BlockingIOError):
                listener.accept()


def test_a_function_in_java_that_declares_no_host_has_no_network(called: Declare) -> None:
    with web_server() as port:
        fetch = called("Fetch", PARAMETERS, "VARCHAR")
        for way in ("url", "client", "socket", "selector"):
            with pytest.raises((CallError, WorkerEnded)):
                fetch((way, "127.0.0.1", port))


def test_the_operator_decides_to_which_addresses_functions_in_java_connect(called: Declare) -> None:
    fetch = called("Fetch", PARAMETERS, "VARCHAR", egress=["*"])
    for host in ("169.254.169.254", "10.0.0.1"):
        with pytest.raises(CallError, match=r"Permission denied"):
            fetch(("socket", host, 80))


def test_a_worker_that_ends_while_it_connects_leaves_nothing_behind(called: Declare) -> None:
    # A full backlog: the connects wait for an answer that does not come.
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        port = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(3)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(("127.0.0.1", port))
        fetch = called("Fetch", PARAMETERS, "VARCHAR", egress=["127.0.0.1"])
        with pytest.raises(WorkerEnded, match="not answered within"):
            fetch(("socket", "127.0.0.1", port), timeout_s=5)
        for each in waiting:
            each.close()
    with web_server() as port:
        again = called("Fetch", PARAMETERS, "VARCHAR", egress=["127.0.0.1"])
        assert again(("url", "127.0.0.1", port)) == ["hello"]


def test_the_kernel_keeps_a_supervised_process_from_every_other_way_to_connect() -> None:
    with (
        web_server() as port,
        socket.create_server(("127.0.0.1", 0)) as other,
        closing(EgressProxy(("loopback",))) as proxy,
    ):
        launch = {
            "command": [
                str(Path(sys.executable).resolve()),
                "-I",
                "-S",
                "-c",
                _ATTEMPTS,
                f"{port} {other.getsockname()[1]}",
            ],
            "read": [str(Path(sys.base_prefix).resolve()), *_SYSTEM],
            "memory_mb": 512,
            "confined": True,
            "network": SUPERVISED,
            "proxy": proxy.address(),
            "destinations": [f"127.0.0.1:{port}"],
        }
        command = launching(launch)
        answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert answer.returncode == 0, answer.stderr
        results = json.loads(answer.stdout)
        assert {name: result for name, result in results.items() if name in _EXPECTED} == {
            name: [error] for name, error in _EXPECTED.items()
        }
        # Each is one or the other, and the address that was judged is the one that was used.
        assert set(results["exchanged while it connects"]) <= {0, errno.EACCES}
        other.settimeout(0)
        with pytest.raises(BlockingIOError):
            other.accept()


_EXPECTED = {
    "datagrams": errno.EPERM,
    "another protocol": errno.EPERM,
    "several paths": errno.EPERM,
    "a local socket": errno.EPERM,
    "the kernel's messages": errno.EPERM,
    "a pair for datagrams": errno.EPERM,
    "a pair of streams": 0,
    "bind": errno.EPERM,
    "listen": errno.EPERM,
    "fast open": errno.EPERM,
    "a declared port": 0,
    "another port": errno.EACCES,
    "a mapped address": 0,
    "another port of a mapped address": errno.EACCES,
    "no address": errno.EINVAL,
    "half an address": errno.EINVAL,
    "a local address": errno.EAFNOSUPPORT,
    "memory that it does not have": errno.EIO,
    "memory that nobody has": errno.EFAULT,
    "a file": errno.ENOTSOCK,
    "no descriptor": errno.EBADF,
    "the proxy": errno.EAFNOSUPPORT,
    "descriptors": 4,
}
_ATTEMPTS = """
import ctypes, json, os, socket, struct, sys, threading
def is_open(descriptor):
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True

# The standard ones and the connection to the proxy; not the listener.
results = {"descriptors": [sum(map(is_open, range(250)))]}
libc = ctypes.CDLL(None, use_errno=True)
port, other = map(int, sys.argv[1].split())
proxy = int(sys.argv[2])

def note(name, result):
    results.setdefault(name, []).append(ctypes.get_errno() if result < 0 else 0)
    return result

def opened(family=2, kind=1, protocol=0):
    return libc.socket(family, kind, protocol)

def ip4(number):
    return struct.pack("=H", 2) + struct.pack("!H4s8x", number, bytes([127, 0, 0, 1]))

def ip6(number):
    return struct.pack("=H", 10) + struct.pack("!HI16sI", number, 0, bytes(10) + bytes([255, 255, 127, 0, 0, 1]), 0)

def connect(name, descriptor, address, length=None):
    pointer = ctypes.c_void_p(address) if isinstance(address, int) else address
    note(name, libc.connect(descriptor, pointer, length if length is not None else len(address)))

ctypes.set_errno(0)
note("datagrams", opened(kind=2))
note("another protocol", opened(protocol=132))
note("several paths", opened(protocol=262))
note("a local socket", opened(family=1))
note("the kernel's messages", opened(family=16, kind=3))
pair = (ctypes.c_int * 2)()
note("a pair for datagrams", libc.socketpair(1, 2, 0, pair))
address = ctypes.create_string_buffer(ip4(0), 16)
note("bind", libc.bind(opened(), address, 16))
note("listen", libc.listen(opened(), 1))
address = ctypes.create_string_buffer(ip4(port), 16)
note("fast open", libc.sendto(opened(), b"x", 1, 0x20000000, address, 16))
connect("a declared port", opened(), ip4(port))
connect("another port", opened(), ip4(other))
connect("a mapped address", opened(10), ip6(port))
connect("another port of a mapped address", opened(10), ip6(other))
connect("no address", opened(), ip4(port), 2)
connect("half an address", opened(), ip4(port), 5)
connect("a local address", opened(), struct.pack("=H", 1) + b"/tmp/x")
connect("memory that it does not have", opened(), 4096, 16)
connect("memory that nobody has", opened(), -1, 16)
connect("a file", os.open("/dev/null", os.O_RDONLY), ip4(port))
connect("no descriptor", 250, ip4(port))
connect("the proxy", proxy, ip4(port))
note("a pair of streams", libc.socketpair(1, 1, 0, pair))

shared = ctypes.create_string_buffer(ip4(port), 16)
done = threading.Event()
def exchange():
    while not done.is_set():
        for number in (other, port):
            shared[2:4] = struct.pack("!H", number)
threading.Thread(target=exchange).start()
for _ in range(100):
    descriptor = opened()
    note("exchanged while it connects", libc.connect(descriptor, shared, 16))
    os.close(descriptor)
done.set()
print(json.dumps(results))
"""
