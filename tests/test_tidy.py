"""The house rules that a machine can hold: sizes, names, docstrings, nothing of one machine in the tree."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70

FILES_ALLOWED_LONGER: dict[str, int] = {}
"""Path to its number of lines. Only ever shrink these: take an entry out when its file has become short."""

FUNCTIONS_ALLOWED_LONGER: dict[str, int] = {}
"""``path::function`` to its number of lines. As above."""

BANNED_NAMES = {"utils", "util", "helper", "helpers", "manager", "managers", "common", "misc"}
SOURCES = {".py", ".scala", ".ts", ".tsx", ".css", ".sh", ".sql"}
GENERATED = ("web/package-lock.json", "harness/kinesis/package-lock.json", "requirements.lock")

# Put together here so that this file does not hold what it forbids.
FOREIGN = re.compile(
    "|".join(
        [
            r"\bpypi\." + r"org\b",
            r"files\." + r"pythonhosted\.org",
            r"\brepo1?\." + r"maven\b",
            r"registry\." + r"npmjs\.org",
            r"registry\." + r"yarnpkg\.com",
            r"/ro" + r"ot/",
            r"/wo" + r"rk/",
            r"/ho" + r"me/\w",
            r"/Use" + r"rs/\w",
            r"/tm" + r"p/(?:hr|bash_jobs)\b",
        ]
    )
)


@cache
def _files() -> list[Path]:
    """What is in the repository, or would be with the next commit."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout: nothing says which files belong to it")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _python(folder: str = "") -> list[Path]:
    return [path for path in _files() if path.suffix == ".py" and _name(path).startswith(folder)]


def _report(faults: list[str], advice: str) -> None:
    assert not faults, "\n  ".join([advice, *sorted(faults)])


def test_no_file_is_too_long() -> None:
    faults = []
    for path in _files():
        if path.suffix not in SOURCES or _name(path) in GENERATED:
            continue
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > FILES_ALLOWED_LONGER.get(_name(path), FILE_LINES_MAX):
            faults.append(f"{_name(path)}: {lines} lines")
    _report(faults, f"Split these by what they are about; {FILE_LINES_MAX} lines at most:")


def test_no_function_is_too_long() -> None:
    faults = []
    for path in _python():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            key = f"{_name(path)}::{node.name}"
            if lines > FUNCTIONS_ALLOWED_LONGER.get(key, FUNCTION_LINES_MAX):
                faults.append(f"{key} (line {node.lineno}): {lines} lines")
    _report(faults, f"Take named steps out of these functions; {FUNCTION_LINES_MAX} lines at most:")


def test_no_module_has_a_name_that_says_nothing() -> None:
    names = [_name(path) for path in _files()]
    faults = [name for name in names if BANNED_NAMES & {part.split(".")[0] for part in Path(name).parts}]
    _report(faults, "Name these after what they hold, or move each piece to where it is used:")


def test_no_file_names_a_registry_or_a_place_on_somebodys_machine() -> None:
    faults = []
    for path in _files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            if found := FOREIGN.search(line):
                faults.append(f"{_name(path)}:{number}: {found[0]}")
    _report(faults, "Take these out: a registry is configured on the machine, and a path is found or given:")


def test_every_package_says_what_belongs_in_it() -> None:
    faults = []
    for folder in {path.parent for path in _python("src/")} - {ROOT / "src"}:
        init = folder / "__init__.py"
        if not init.is_file() or not ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))):
            faults.append(_name(init))
    _report(
        faults,
        "Give these a docstring: role, entry points, what may be imported, how to add the usual thing:",
    )


OUTSIDE = {"benchmarks", "demo", "harness", "tests"}

# Besides its own folder and its line in the registry: the embedded broker, and who offers it.
KNOWS_KAFKA = (
    "connectors/kafka/",
    "connectors/registry.py",
    "core/idioms.py",
    "runtime/",
    "server/process.py",
    "server/quick_start.py",
    "server/__main__.py",
    "cli/__main__.py",
    "cli/commands.py",
)


def test_no_store_type_is_named_outside_its_folder() -> None:
    faults = []
    for path in _python("src/headrace/"):
        name = _name(path).removeprefix("src/headrace/")
        if name.startswith(KNOWS_KAFKA):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if "kafka" in line.lower():
                faults.append(f"{name}:{number}: {line.strip()}")
    _report(faults, "What is true of one store type belongs in its descriptor (connectors/base.py):")


def test_the_lists_of_exceptions_hold_nothing_that_is_gone() -> None:
    named = [*FILES_ALLOWED_LONGER, *(key.partition("::")[0] for key in FUNCTIONS_ALLOWED_LONGER)]
    _report([name for name in named if not (ROOT / name).is_file()], "Take these exceptions out:")


def test_every_import_of_a_module_outside_the_product_resolves() -> None:
    """mypy reads `src` only, and most of these modules are imported by long tests alone."""
    faults = []
    for path in _python():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not node.module:
                continue
            package, *_ = parts = node.module.split(".")
            module = ROOT.joinpath(*parts)
            if package in OUTSIDE and not (module.is_dir() or module.with_suffix(".py").is_file()):
                faults.append(f"{_name(path)}:{node.lineno}: {node.module}")
            if package == "tests" and _name(path).startswith("harness/"):
                faults.append(
                    f"{_name(path)}:{node.lineno}: the harness also serves the demo and the benchmarks"
                )
    _report(faults, "These imports name no module of the repository, or one of the tests:")


@pytest.mark.parametrize("module", ["headrace.server", "headrace.cli"])
def test_no_door_loads_pyspark(module: str) -> None:
    program = f"import sys, {module}; sys.exit('pyspark' in sys.modules or 'py4j' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 0, (
        f"importing {module} loads pyspark, which only the driver may:\n{result.stderr}"
    )


def test_a_start_loads_no_client_of_a_store_that_few_have() -> None:
    """Neither the server's, nor that of a driver, which loads the driver's half of every store type."""
    program = (
        "import sys, headrace.server.wiring, headrace.engine.driver.service\n"
        "from headrace.connectors.registry import STORE_TYPES, spark_module\n"
        "for name in STORE_TYPES: spark_module(name)\n"
        "sys.exit(' '.join({'boto3', 'databricks', 'oracledb', 'psycopg', 'snowflake'} & set(sys.modules)) or None)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"a start loads {result.stderr}"
