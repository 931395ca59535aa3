"""Workers of the functions in `java/`, each test's own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.java_functions import functions_jar, libraries_jar
from headrace.core.settings import Settings
from headrace.core.types import parse_type
from headrace.engine.functions.protocol import FunctionWorker
from headrace.engine.functions.runtime import FunctionRuntime
from headrace.planner.physical import UserFunction
from tests.user_functions.caller import TIMEOUT_MS, Called


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[FunctionRuntime]:
    """Return a runtime whose only function source has the JARs of the tests."""
    settings = Settings(data_dir=tmp_path, functions_timeout_ms=TIMEOUT_MS, functions_egress=("loopback",))
    files = {hashlib.sha256(jar).hexdigest(): jar for jar in (functions_jar(), libraries_jar())}
    started = FunctionRuntime(settings, files.get)
    yield started
    started.close()


@pytest.fixture
def called(runtime: FunctionRuntime) -> Iterator[Callable[..., Called]]:
    """Return a function that declares one of the classes in a worker of its own."""
    with ExitStack() as stack:

        def declare(
            name: str,
            parameters: list[str],
            result: str,
            *,
            kind: str = "scalar",
            libraries: bool = True,
            egress: Sequence[str] = (),
        ) -> Called:
            jars = (functions_jar(), libraries_jar()) if libraries else (functions_jar(),)
            function = UserFunction(
                id=name,
                signature=f"{name}({', '.join(parameters)})",
                digest="+".join(hashlib.sha256(jar).hexdigest() for jar in jars),
                language="java",
                class_name=f"com.example.{name}",
                kind=kind,  # type: ignore[arg-type]
                parameters=parameters,
                arguments=parameters,
                result=result,
                egress=list(egress),
            )
            (lent,) = stack.enter_context(runtime.lent([function], "role tester"))
            (declared,) = lent.functions
            return Called(
                FunctionWorker(lent.socket),
                declared,
                [parse_type(kind) for kind in parameters],
                parse_type(result),
                lent.timeout_s,
            )

        yield declare
