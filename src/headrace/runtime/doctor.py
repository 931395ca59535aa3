"""What this machine has and lacks for running Headrace, without changing anything."""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from headrace.core.errors import HeadraceError
from headrace.runtime import extension
from headrace.runtime.jars import KAFKA_BROKER, SPARK, coordinates, missing
from headrace.runtime.java import java_runtime
from headrace.runtime.paths import cache_dir, source_tree
from headrace.runtime.spark_jvm import class_archive
from headrace.runtime.webpage import web_page

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
"""Programs that the web journey can drive, best first."""

_FREE_DISK_MIN = 2 * 1024**3
_PYTHON_MIN = (3, 11)


@dataclass(frozen=True)
class Check:
    """One line of the doctor's report: `found` is what there is, `fix` what to do when it is not `ok`.

    What is `optional` is missed by one feature only.
    """

    name: str
    ok: bool
    found: str
    fix: str
    optional: bool = False


def checks() -> list[Check]:
    """Everything that is looked at, in the order of what needs what; takes well under a second."""
    makers: list[Callable[[], Check]] = [
        _python,
        _pyspark,
        _java,
        lambda: _jar_group("Spark connector jars", SPARK, optional=False),
        _extension,
        _archive,
        _web_page,
        lambda: _jar_group("Kafka broker jars", KAFKA_BROKER, optional=True),
        _browser,
        _disk,
    ]
    return [make() for make in makers]


def _python() -> Check:
    return Check(
        name="Python",
        ok=sys.version_info >= _PYTHON_MIN,
        found=f"{platform.python_version()} ({sys.executable})",
        fix="Install Python 3.11 or later.",
    )


def _pyspark() -> Check:
    try:
        found = version("pyspark")
    except PackageNotFoundError:
        return Check(
            "pyspark", ok=False, found="not installed", fix="Install headrace with its dependencies again."
        )
    return Check("pyspark", ok=True, found=found, fix="")


def _java() -> Check:
    try:
        runtime = java_runtime()
    except HeadraceError as error:
        return Check("Java", ok=False, found=error.message, fix=error.hint or "")
    return Check("Java", ok=True, found=f"{runtime.version} ({runtime.home})", fix="")


def _jar_group(name: str, group: str, *, optional: bool) -> Check:
    lacking = missing(group)
    total = len(coordinates(group))
    return Check(
        name=name,
        ok=not lacking,
        found=f"{total - len(lacking)} of {total} in {cache_dir() / 'jars'}",
        fix=f"They are fetched when first needed; now: python -m headrace.runtime.jars {group}",
        optional=optional,
    )


def _extension() -> Check:
    fix = "It is compiled when first needed; now: python -m headrace.runtime.extension"
    try:
        compiled = extension.is_compiled()
    except HeadraceError as error:
        return Check("JVM extension", ok=False, found=error.message, fix=error.hint or fix)
    return Check("JVM extension", ok=compiled, found="compiled" if compiled else "not compiled yet", fix=fix)


def _archive() -> Check:
    fix = "Drivers start some seconds later without; now: python -m headrace.engine.driver.archive"
    try:
        # Its name comes from the jars: they must be there to tell.
        made = not missing(SPARK) and extension.is_compiled() and class_archive().is_file()
    except HeadraceError as error:
        return Check("Class archive", ok=False, found=error.message, fix=error.hint or fix, optional=True)
    return Check("Class archive", ok=made, found="made" if made else "not made yet", fix=fix, optional=True)


def _web_page() -> Check:
    page = web_page()
    return Check(
        name="Web page",
        ok=page is not None,
        found=str(page) if page else "not built",
        fix="Run make setup." if source_tree() else "Install headrace again from a release.",
        optional=True,
    )


def _browser() -> Check:
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    return Check(
        name="Chromium",
        ok=found is not None,
        found=found or "none on PATH",
        fix="Only the test of the web page needs one: make browser",
        optional=True,
    )


def _disk() -> Check:
    folder = cache_dir()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    return Check(
        name="Free disk",
        ok=free >= _FREE_DISK_MIN,
        found=f"{free / 1024**3:.1f} GiB at {folder}",
        fix=f"Free at least {_FREE_DISK_MIN // 1024**3} GiB, or set HEADRACE_CACHE_DIR to another disk.",
    )
