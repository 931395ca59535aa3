"""Workers of functions that an executor of a cluster starts: with the files that it has received, and nothing of the server's folders."""

from __future__ import annotations

import base64
import hashlib
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from harness.java_functions import functions_jar, libraries_jar
from harness.patience import PATIENCE_S
from headrace.core.settings import Settings
from headrace.core.types import parse_type
from headrace.engine.driver import python_worker
from headrace.engine.functions import commands
from headrace.engine.functions.protocol import CallError, FunctionWorker, LentFunction
from headrace.engine.functions.runtime import FunctionRuntime, _declaration
from headrace.planner.physical import UserFunction
from headrace.planner.target import Target
from headrace.runtime.java import JavaRuntime
from tests.user_functions.caller import Called
from tests.user_functions.test_packages import POLITE, write_wheel
from tests.user_functions.web_server import web_server

CLUSTER = Target(master="standalone", python=True)
CODE = b"""
def longer(text):
    return text + "!"

def greet(name):
    import polite
    return polite.greeting(name)

def fetch(host, port):
    import urllib.request
    return urllib.request.urlopen(f"http://{host}:{port}").read().decode()

def stolen(path):
    return open(path).read()
"""
PLACE = ("VARCHAR", "INTEGER")


def function(
    name: str, language: str, digests: list[str], parameters: Sequence[str], egress: Sequence[str]
) -> UserFunction:
    return UserFunction(
        id=name,
        signature=f"{name}({', '.join(parameters)})",
        digest="+".join(digests),
        language=language,  # type: ignore[arg-type]
        class_name=name,
        kind="scalar",
        parameters=list(parameters),
        arguments=list(parameters),
        result="VARCHAR",
        egress=list(egress),
    )


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Called]]:
    """Start a function's worker as an executor does, on a machine that has `obstacle` against its confinement."""
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    requirements = f"polite==1.0 --hash=sha256:{write_wheel(tmp_path, POLITE)}\n".encode()
    files = (functions_jar(), libraries_jar(), CODE, requirements)
    codes = {hashlib.sha256(code).hexdigest(): code for code in files}
    jar, libraries, module, packages = codes
    digests = {"java": [jar, libraries], "python": [module], "python with packages": [module, packages]}
    settings = Settings(
        data_dir=tmp_path / "server",
        worker_python=Path(sys.executable),
        functions_requirements=True,
        functions_egress=("loopback",),
    )
    runtime = FunctionRuntime(settings, codes.get)
    sent = tmp_path / "sent"
    sent.mkdir()
    with ExitStack() as stack:
        stack.callback(runtime.close)

        def started(
            name: str,
            language: str,
            obstacle: str | None = None,
            *,
            parameters: Sequence[str] = ("VARCHAR",),
            egress: Sequence[str] = (),
        ) -> Called:
            called = function(name, language.partition(" ")[0], digests[language], parameters, egress)
            (launch,) = runtime.launches([called], "role tester", CLUSTER)
            for file, content in runtime.files([called], CLUSTER).items():
                (sent / file).write_bytes(base64.b64decode(content))
            # Only the files that were sent are there.
            shutil.rmtree(tmp_path / "server", ignore_errors=True)
            (sent / "tmp").mkdir(exist_ok=True)
            python_worker.write_executables(sent, sys.executable)
            command = [str(sent / "tmp" / python_worker.NAME), *launch.command]
            if obstacle is not None:
                program = (
                    f"from headrace.runtime import confined; confined.obstacle = lambda: {obstacle!r}; "
                    "from headrace.engine.functions import on_worker; on_worker.main()"
                )
                command = [sys.executable, "-P", "-c", program, launch.command[-1]]
            ours, theirs = socket.socketpair()
            with theirs:
                process = subprocess.Popen(
                    [*command, str(sent)], stdin=theirs.fileno(), stdout=theirs.fileno(), env={}
                )
            stack.callback(process.wait)
            stack.callback(process.kill)
            stack.callback(ours.close)
            text, kinds = parse_type("VARCHAR"), [parse_type(kind) for kind in parameters]
            lent = LentFunction(
                name,
                _declaration(called),
                0,
                called.signature,
                tuple(parameters),
                "VARCHAR",
                tuple(parameters),
                "VARCHAR",
            )
            return Called(FunctionWorker(ours), lent, kinds, text, PATIENCE_S)

        yield started


def test_a_function_in_python_runs_and_is_confined(start: Callable[..., Called], tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    assert start("longer", "python")(("a",), ("b",)) == ["a!", "b!"]
    with pytest.raises(CallError, match="Permission denied"):
        start("stolen", "python")((str(secret),))


def test_a_function_in_python_imports_the_packages_that_the_server_has_installed(
    start: Callable[..., Called], tmp_path: Path
) -> None:
    for _ in range(2):
        assert start("greet", "python with packages")(("Ada",)) == ["good day, Ada"]
    assert len(list((tmp_path / "sent").glob("*.packages/polite"))) == 1


def test_packages_that_cannot_be_unpacked_end_the_call_with_the_reason(
    start: Callable[..., Called], monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Path.write_bytes

    def written(path: Path, content: bytes) -> int:
        return write(path, b"no archive" if path.suffix == ".zip" else content)

    monkeypatch.setattr(Path, "write_bytes", written)
    with pytest.raises(CallError, match=r"on the worker .*: their packages cannot be unpacked: File is not"):
        start("greet", "python with packages")(("Ada",))


def test_a_function_in_java_runs_with_its_libraries(start: Callable[..., Called]) -> None:
    assert start("com.example.Greets", "java")(("Ada",)) == ["hello Ada of its own Jackson"]


def test_a_function_connects_to_the_hosts_that_it_declares_by_the_machine_of_its_worker(
    start: Callable[..., Called],
) -> None:
    with web_server() as port, socket.create_server(("127.0.0.1", 0)) as other:
        fetch = start("fetch", "python", parameters=PLACE, egress=[f"localhost:{port}"])
        assert fetch(("localhost", port)) == ["hello"]
        with pytest.raises(CallError, match=r"not in 'egress.allow.uris'"):
            fetch(("localhost", other.getsockname()[1]))
        # The operator allows loopback only.
        everywhere = start("fetch", "python", parameters=PLACE, egress=["*"])
        with pytest.raises(CallError, match="HEADRACE_FUNCTIONS_EGRESS"):
            everywhere(("169.254.169.254", 80))
        in_java = start(
            "com.example.Fetch", "java", parameters=("VARCHAR", *PLACE), egress=[f"localhost:{port}"]
        )
        assert in_java(("url", "localhost", port), ("socket", "localhost", port))[0] == "hello"
        with pytest.raises(CallError, match=r"Permission denied|ConnectException"):
            in_java(("url", "localhost", other.getsockname()[1]))


def test_a_worker_that_connects_ends_with_the_program_that_the_executor_has_started(
    start: Callable[..., Called],
) -> None:
    def workers() -> list[psutil.Process]:
        return [
            process
            for process in psutil.Process().children(recursive=True)
            if commands._PYTHON_WORKER in process.cmdline()
        ]

    fetch = start("fetch", "python", parameters=PLACE, egress=["localhost"])
    with web_server() as port:
        assert fetch(("localhost", port)) == ["hello"]
    (worker,) = workers()
    program = worker.parent()
    assert program is not None
    program.kill()
    worker.wait(PATIENCE_S)


def test_a_machine_that_cannot_confine_a_function_runs_none(start: Callable[..., Called]) -> None:
    called = start("longer", "python", obstacle="the kernel has no Landlock")
    for _ in range(2):
        with pytest.raises(CallError, match=r"cannot be run on the worker .*: the kernel has no Landlock"):
            called(("a",))


def test_a_java_may_read_the_configuration_that_it_links_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, settings = tmp_path / "java", tmp_path / "etc" / "net.properties"
    (home / "conf").mkdir(parents=True)
    settings.parent.mkdir()
    settings.touch()
    (home / "conf" / "net.properties").symlink_to(settings)
    monkeypatch.setattr(commands, "java_runtime", lambda: JavaRuntime(home, "17", frozenset()))
    assert str(settings) in commands.of_java([], [], 64)["read"]  # type: ignore[operator]
