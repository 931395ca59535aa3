"""Functions of wheels, and packages that functions require: they are installed with their hashes, and run as confined as any code."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from headrace.core.errors import UserError
from headrace.core.settings import Settings
from headrace.core.types import VARCHAR
from headrace.engine.functions.protocol import CallError, FunctionWorker
from headrace.engine.functions.runtime import FunctionRuntime
from headrace.planner.physical import UserFunction
from tests.user_functions.caller import TIMEOUT_MS, Called

MODULE = """
def greet(name):
    import polite
    return polite.greeting(name)

def peek(path):
    return open(path).read()
"""
POLITE = """
def greeting(name):
    if not name:
        raise ValueError("nobody")
    return f"good day, {name}"
"""


def write_wheel(folder: Path, code: str) -> str:
    """Write the wheel of a package `polite` with this code; return its SHA-256."""
    files = {
        "polite/__init__.py": code,
        "polite-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: polite\nVersion: 1.0\n",
        "polite-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    path = folder / "polite-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        archive.writestr(
            "polite-1.0.dist-info/RECORD",
            "".join(f"{name},,\n" for name in [*files, "polite-1.0.dist-info/RECORD"]),
        )
    return hashlib.sha256(path.read_bytes()).hexdigest()


def call(runtime: FunctionRuntime, files: list[bytes], name: str, argument: str) -> object:
    """Return the result of a function for a text."""
    digest = "+".join(hashlib.sha256(file).hexdigest() for file in files)
    function = UserFunction(
        id="f",
        signature="f(VARCHAR)",
        digest=digest,
        language="python",
        class_name=name,
        kind="scalar",
        parameters=["VARCHAR"],
        arguments=["VARCHAR"],
        result="VARCHAR",
    )
    with runtime.lent([function], "role tester") as (lent,):
        worker = FunctionWorker(lent.socket)
        (result,) = Called(worker, lent.functions[0], [VARCHAR], VARCHAR, lent.timeout_s)((argument,))
        return result


def runtime_of(folder: Path, *files: bytes, allowed: bool = True) -> FunctionRuntime:
    """Return a runtime with these files of function sources."""
    settings = Settings(data_dir=folder, functions_timeout_ms=TIMEOUT_MS, functions_requirements=allowed)
    return FunctionRuntime(settings, {hashlib.sha256(file).hexdigest(): file for file in files}.get)


def test_a_function_of_a_wheel_is_imported_as_it_is(tmp_path: Path) -> None:
    write_wheel(tmp_path, POLITE)
    (wheel,) = (path.read_bytes() for path in tmp_path.glob("*.whl"))
    runtime = runtime_of(tmp_path, wheel)
    assert call(runtime, [wheel], "polite.greeting", "ann") == "good day, ann"
    with pytest.raises(CallError, match="nobody") as caught:
        call(runtime, [wheel], "polite.greeting", "")
    assert caught.value.trace == "at greeting (line 4)"
    runtime.close()


def test_packages_are_installed_by_their_hashes_where_the_operator_allows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = write_wheel(tmp_path, POLITE)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    module, requirements = MODULE.encode(), f"polite==1.0 --hash=sha256:{digest}\n".encode()
    runtime = runtime_of(tmp_path, module, requirements)
    assert call(runtime, [module, requirements], "greet", "ann") == "good day, ann"
    with pytest.raises(CallError, match="PermissionError"):
        call(runtime, [module, requirements], "peek", "/etc/passwd")
    # The list without the packages is another worker, which has none.
    with pytest.raises(CallError, match="No module named 'polite'"):
        call(runtime, [module], "greet", "ann")
    other = f"polite==1.0 --hash=sha256:{'0' * 64}\n".encode()
    with pytest.raises(UserError, match=r"(?i)hash"):
        call(runtime_of(tmp_path, module, other), [module, other], "greet", "ann")
    assert [path.name for path in (tmp_path / "functions").iterdir() if path.is_dir()] == [
        f"{hashlib.sha256(requirements).hexdigest()}.packages"
    ]
    forbidden = runtime_of(tmp_path, module, requirements, allowed=False)
    with pytest.raises(UserError, match="requires packages"):
        call(forbidden, [module, requirements], "greet", "ann")
    runtime.close()
