"""Functions in Python: values of all types, rows and groups, vectorized calls, failures with their lines, and what they must not get."""

from __future__ import annotations

import datetime
import hashlib
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from headrace.core.settings import Settings
from headrace.core.types import parse_type
from headrace.engine.functions.egress_proxy import permits
from headrace.engine.functions.protocol import CallError, FunctionWorker, WorkerEnded
from headrace.engine.functions.runtime import FunctionRuntime
from headrace.planner.physical import UserFunction
from tests.user_functions.caller import TIMEOUT_MS, Called
from tests.user_functions.test_values import VALUES
from tests.user_functions.web_server import web_server

Declare = Callable[..., Called]
CODE = """
import ctypes, os, socket, sys, threading

def same(value):
    return value

def longer(text, number=1):
    if number < 0:
        raise ValueError(f"{number} is negative")
    return text * number

def words(text):
    for word in (text or "").split():
        yield word, len(word)

def letters(text):
    yield from text

def doubled(numbers):
    import pyarrow.compute
    return pyarrow.compute.multiply(numbers, 2)

def inverse(numbers):
    import pyarrow.compute
    return pyarrow.compute.divide(10, numbers)

def short(numbers):
    return numbers[:1]

def wrong(kind):
    return {"number": 1, "text": "text", "fraction": 1.5, "huge": 1 << 70}[kind]

class Median:
    def __init__(self):
        self.values = []

    def accumulate(self, value):
        if value is not None:
            self.values.append(value)

    def finish(self):
        return sorted(self.values)[len(self.values) // 2] if self.values else None

calls = 0

def counted(fails):
    global calls
    calls += 1
    if fails:
        raise ValueError(calls)
    return calls

def endless(text):
    while True:
        yield text

def endure(action):
    import builtins
    if action == "recursion":
        return endure(action)
    if action == "module":
        globals()["endure"] = None
        sys.modules.pop("pyarrow")
        builtins.len = None
    if action == "pickle":
        import pickle
        return pickle.loads(b"cos\\nsystem\\n(S'true'\\ntR.")
    return action

def fetch(host, port):
    import urllib.request
    with urllib.request.urlopen(f"http://{host}:{port}/", timeout=5) as answer:
        return answer.read().decode()

def network(action, port):
    library = ctypes.CDLL(None, use_errno=True)
    if action == "datagram":
        return str(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    if action == "unix":
        return str(socket.socket(socket.AF_UNIX))
    placeholder = socket.socket()
    address = b"\\x02\\x00" + port.to_bytes(2) + bytes([127, 0, 0, 1]) + bytes(8)
    if action == "raw connect":
        return str((library.connect(placeholder.fileno(), address, 16), ctypes.get_errno()))
    if action == "fast open":
        return str((library.sendto(placeholder.fileno(), b"x", 1, 0x20000000, address, 16), ctypes.get_errno()))
    return str((library.socket(2, 1, 0), ctypes.get_errno()))

def escape(action, target):
    if action == "read":
        return open(target).read()
    if action == "list":
        return str(os.listdir(target))
    if action == "write":
        return str(open(target, "w").write("x"))
    if action == "connect":
        return str(socket.create_connection(("127.0.0.1", int(target))))
    if action == "fork":
        return str(os.fork())
    if action == "run":
        return str(os.system(target))
    if action == "kill":
        return str(os.kill(int(target), 9))
    if action == "libc":
        library = ctypes.CDLL(None, use_errno=True)
        return str((library.kill(int(target), 9), ctypes.get_errno()))
    if action == "limit":
        import resource
        return str(resource.setrlimit(resource.RLIMIT_DATA, (1 << 40, 1 << 40)))
    if action == "memory":
        return str(len(bytearray(1 << 32)))
    if action == "environment":
        return str(dict(os.environ))
    if action == "modules":
        import headrace
        return str(headrace)
    if action == "thread":
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()
        return "joined"
    if action == "print":
        for _ in range(100):
            print("x" * 10_000_000)
        return "printed"
    if action == "pid":
        return str(os.getpid())
    if action == "exit":
        os._exit(3)
    while action == "hang":
        pass
"""


@pytest.fixture
def python(tmp_path: Path) -> Iterator[Declare]:
    """Return a function that declares a function of CODE in a worker of its own."""
    settings = Settings(data_dir=tmp_path, functions_timeout_ms=TIMEOUT_MS, functions_egress=("loopback",))
    runtime = FunctionRuntime(settings, lambda _digest: CODE.encode())
    with ExitStack() as stack:
        stack.callback(runtime.close)

        def declare(
            name: str, parameters: list[str], result: str, *, kind: str = "scalar", egress: Sequence[str] = ()
        ) -> Called:
            function = UserFunction(
                id=name,
                signature=f"{name}({', '.join(parameters)})",
                digest=hashlib.sha256(CODE.encode()).hexdigest(),
                language="python",
                class_name=name,
                kind=kind,  # type: ignore[arg-type]
                parameters=parameters,
                arguments=parameters,
                result=result,
                egress=list(egress),
            )
            (lent,) = stack.enter_context(runtime.lent([function], "role tester"))
            types = [parse_type(kind) for kind in parameters]
            return Called(
                FunctionWorker(lent.socket), lent.functions[0], types, parse_type(result), lent.timeout_s
            )

        yield declare


def test_values_of_all_types_come_back_as_they_went(python: Declare) -> None:
    for kind, values in VALUES:
        rows = [*values, None]
        expected = [dict(value) if kind.startswith("MAP") and value is not None else value for value in rows]
        got = python("same", [kind], kind)(*((value,) for value in rows))
        assert [
            dict(value) if isinstance(value, list) and kind.startswith("MAP") else value for value in got
        ] == expected


def test_rows_groups_and_arrays(python: Declare) -> None:
    words = python("words", ["VARCHAR"], "ARRAY<STRUCT<word VARCHAR, length INTEGER>>", kind="table")
    assert words(("a bc",), (None,)) == [[{"word": "a", "length": 1}, {"word": "bc", "length": 2}], []]
    assert python("letters", ["VARCHAR"], "ARRAY<VARCHAR>", kind="table")(("ab",)) == [["a", "b"]]
    median = python("Median", ["BIGINT"], "BIGINT", kind="aggregate")
    median.declare()
    median.parameters = [parse_type("ARRAY<STRUCT<f0 BIGINT>>")]
    assert median(([{"f0": 5}, {"f0": 1}, {"f0": None}, {"f0": 9}],), ([],)) == [5, None]
    assert python("doubled", ["BIGINT"], "BIGINT", kind="vectorized")((1,), (None,), (4,)) == [2, None, 8]
    moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    assert python("same", ["TIMESTAMP_LTZ(3)"], "TIMESTAMP_LTZ(3)")((moment,)) == [moment]


@pytest.mark.parametrize(
    ("name", "parameters", "result", "kind", "argument", "message"),
    [
        ("longer", ["VARCHAR", "INTEGER"], "VARCHAR", "scalar", ("a", -1), "ValueError: -1 is negative"),
        (
            "wrong",
            ["VARCHAR"],
            "VARCHAR",
            "scalar",
            ("number",),
            "it returned 1, which is not of the declared type",
        ),
        ("wrong", ["VARCHAR"], "BIGINT", "scalar", ("text",), "it returned 'text'"),
        ("wrong", ["VARCHAR"], "BIGINT", "scalar", ("fraction",), "it returned 1.5"),
        ("wrong", ["VARCHAR"], "BIGINT", "scalar", ("huge",), "it returned 1180591620717411303424"),
        ("wrong", ["VARCHAR"], "BIGINT", "scalar", ("missing",), "KeyError: 'missing'"),
        ("doubled", ["VARCHAR"], "BIGINT", "vectorized", ("a",), "ArrowNotImplementedError"),
    ],
)
def test_what_does_not_fit_is_an_error_of_the_function(
    python: Declare,
    name: str,
    parameters: list[str],
    result: str,
    kind: str,
    argument: tuple[object, ...],
    message: str,
) -> None:
    function = python(name, parameters, result, kind=kind)
    with pytest.raises(CallError) as caught:
        function(argument)
    assert message in caught.value.message
    if name == "longer":
        assert (caught.value.trace, caught.value.row) == ("at longer (line 9)", 0)


def test_each_row_that_fails_is_reported_and_the_others_have_their_results(python: Declare) -> None:
    longer = python("longer", ["VARCHAR", "INTEGER"], "VARCHAR")
    assert longer.attempts(("a", 2), ("a", -1), ("b", 1)) == [
        ("aa", None),
        (None, "ValueError: -1 is negative\0at longer (line 9)"),
        ("b", None),
    ]
    wrong = python("wrong", ["VARCHAR"], "BIGINT").attempts(
        ("number",), ("fraction",), ("huge",), ("number",)
    )
    assert [result for result, _ in wrong] == [1, None, None, 1]
    assert "it returned 1.5, which is not of the declared type" in (wrong[1][1] or "")
    inverse = python("inverse", ["BIGINT"], "BIGINT", kind="vectorized").attempts((5,), (0,), (None,), (2,))
    assert [result for result, _ in inverse] == [2, None, None, 5]
    assert [failure and failure.partition("\0")[0] for _, failure in inverse] == [
        None,
        "pyarrow.lib.ArrowInvalid: divide by zero",
        None,
        None,
    ]
    words = python("words", ["VARCHAR"], "ARRAY<STRUCT<word VARCHAR, length INTEGER>>", kind="table")
    assert words.attempts(("a",)) == [([{"word": "a", "length": 1}], None)]


def test_a_result_for_each_row_is_required(python: Declare) -> None:
    with pytest.raises(CallError, match=r"expected a result for each row \(2\), found 1"):
        python("short", ["BIGINT"], "BIGINT", kind="vectorized")((1,), (2,))


def test_nothing_but_its_own_is_in_reach(python: Declare, tmp_path: Path) -> None:
    escape = python("escape", ["VARCHAR", "VARCHAR"], "VARCHAR")
    secret = tmp_path / "secret"
    secret.write_text("the key")
    with socket.create_server(("127.0.0.1", 0)) as server:
        for attempt in (
            ("read", str(secret)),
            ("read", "/proc/self/environ"),
            ("read", "/etc/hostname"),
            ("list", str(tmp_path)),
            ("write", str(tmp_path / "new")),
            ("connect", str(server.getsockname()[1])),
            ("fork", ""),
            ("kill", str(os.getpid())),
            ("limit", ""),
            ("memory", ""),
            ("modules", ""),
        ):
            with pytest.raises(
                CallError, match=r"PermissionError|MemoryError|ValueError|ModuleNotFoundError"
            ):
                escape(attempt)
    assert escape(("libc", str(os.getpid()))) == ["(-1, 1)"]
    assert escape(("run", "true")) != ["0"]
    assert "HEADRACE" not in escape(("environment", ""))[0]
    assert escape(("thread", ""), ("print", "")) == ["joined", "printed"]
    with pytest.raises(WorkerEnded):
        escape(("exit", ""))
    hanging = python("escape", ["VARCHAR", "VARCHAR"], "VARCHAR")
    assert hanging(("thread", "")) == ["joined"]
    with pytest.raises(WorkerEnded, match="not answered"):
        hanging(("hang", ""), timeout_s=1.5)


def test_the_code_of_others_is_out_of_reach_and_no_two_owners_share_a_worker(tmp_path: Path) -> None:
    codes = {
        hashlib.sha256(code.encode()).hexdigest(): code.encode()
        for code in (CODE, "def own():\n    return 1\n")
    }
    mine, other = codes
    settings = Settings(data_dir=tmp_path, functions_timeout_ms=TIMEOUT_MS)
    runtime = FunctionRuntime(settings, codes.get)

    def function(digest: str, name: str, parameters: list[str]) -> UserFunction:
        return UserFunction(
            id=name,
            signature=name,
            digest=digest,
            language="python",
            class_name=name,
            kind="scalar",
            parameters=parameters,
            arguments=parameters,
            result="VARCHAR" if parameters else "BIGINT",
        )

    text = parse_type("VARCHAR")
    with ExitStack() as stack:
        stack.callback(runtime.close)
        stack.enter_context(runtime.lent([function(other, "own", [])], "role other"))
        pids = []
        for owner in ("role tester", "role other"):
            (lent,) = stack.enter_context(
                runtime.lent([function(mine, "escape", ["VARCHAR", "VARCHAR"])], owner)
            )
            escape = Called(
                FunctionWorker(lent.socket), lent.functions[0], [text, text], text, lent.timeout_s
            )
            [module] = (tmp_path / "functions").glob(f"{other}*.py")
            with pytest.raises(CallError, match="PermissionError"):
                escape(("read", str(module)))
            pids.append(escape(("pid", ""))[0])
        assert len(set(pids)) == 2


def test_no_row_of_a_batch_is_called_twice_also_if_rows_fail(python: Declare) -> None:
    counted = python("counted", ["BOOLEAN"], "BIGINT")
    answers = counted.attempts((False,), (True,), (False,), (True,), (False,))
    assert [result for result, _ in answers] == [1, None, 3, None, 5]
    assert [failure and failure.partition("\0")[0] for _, failure in answers][1::2] == [
        "ValueError: 2",
        "ValueError: 4",
    ]
    assert counted((False,)) == [6]


def test_a_function_that_does_not_end_or_breaks_its_process_fails_and_no_neighbour_notices(
    python: Declare,
) -> None:
    neighbour = python("same", ["VARCHAR"], "VARCHAR")
    assert neighbour(("a",)) == ["a"]
    for kind in ("ARRAY<VARCHAR>", "ARRAY<STRUCT<text VARCHAR, number BIGINT>>"):
        endless = python("endless", ["VARCHAR"], kind, kind="table")
        with pytest.raises((CallError, WorkerEnded), match=r"more than 1000000 rows|in a row, found 3"):
            endless(("ab",) if "STRUCT" not in kind else ("abc",))
    endure = python("endure", ["VARCHAR"], "VARCHAR")
    with pytest.raises(CallError, match="RecursionError"):
        endure(("recursion",))
    with pytest.raises(CallError, match=r"not of the declared type|PermissionError"):
        endure(("pickle",))
    for action in ("module", "again"):
        with suppress(CallError, WorkerEnded):
            endure((action,))
    assert neighbour(("a",)) == ["a"]


def test_a_function_connects_to_the_hosts_that_it_declares_and_to_no_other(python: Declare) -> None:
    with web_server() as port, socket.create_server(("127.0.0.1", 0)) as other:
        listed = [f"localhost:{port}", f"127.0.0.1:{port}"]
        fetch = python("fetch", ["VARCHAR", "INTEGER"], "VARCHAR", egress=listed)
        assert fetch(("localhost", port), ("127.0.0.1", port)) == ["hello", "hello"]
        with pytest.raises(CallError, match=r"not in 'egress.allow.uris'"):
            fetch(("localhost", other.getsockname()[1]))
        with pytest.raises(CallError, match=r"not in 'egress.allow.uris'"):
            fetch(("127.0.0.2", port))
        network = python("network", ["VARCHAR", "INTEGER"], "VARCHAR", egress=listed)
        for action in ("raw connect", "fast open", "raw socket"):
            assert network((action, port)) == ["(-1, 1)"], action
        for action in ("datagram", "unix"):
            with pytest.raises(CallError, match="connections by TCP only"):
                network((action, port))
        # The same code without the declaration runs in another worker.
        with pytest.raises(CallError, match=r"PermissionError|URLError"):
            python("fetch", ["VARCHAR", "INTEGER"], "VARCHAR")(("localhost", port))


def test_the_operator_decides_to_which_addresses_functions_connect(python: Declare) -> None:
    fetch = python("fetch", ["VARCHAR", "INTEGER"], "VARCHAR", egress=["*"])
    for host in ("169.254.169.254", "10.0.0.1"):
        with pytest.raises(CallError, match="HEADRACE_FUNCTIONS_EGRESS"):
            fetch((host, 80))


@pytest.mark.parametrize(
    ("destination", "host", "port", "expected"),
    [
        ("api.example.com:443", "api.example.com", 443, True),
        ("api.example.com:443", "api.example.com", 80, False),
        ("api.example.com", "api.example.com", 80, True),
        ("api.example.com", "api.example.com.evil.org", 80, False),
        ("*.example.com:443", "a.b.example.com", 443, True),
        ("*.example.com:443", "example.com", 443, False),
        ("API.Example.com:443", "api.example.com", 443, True),
        ("[::1]:80", "::1", 80, True),
        ("[::1]:80", "::2", 80, False),
    ],
)
def test_destinations_are_names_with_or_without_a_port(
    destination: str, host: str, port: int, *, expected: bool
) -> None:
    assert permits(destination, host, port) is expected
