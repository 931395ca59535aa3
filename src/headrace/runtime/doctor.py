"""Report on the machine for `headrace up`, without changing anything."""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import httpx

from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.runtime import confined, extension
from headrace.runtime.jars import ICEBERG, KAFKA_BROKER, SPARK, coordinates, missing
from headrace.runtime.java import java_runtime
from headrace.runtime.paths import cache_dir, source_tree
from headrace.runtime.spark_jvm import class_archive
from headrace.runtime.webpage import web_page

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
"""Programs that the web journey can drive, best first."""

_FREE_DISK_MIN = 2 * 1024**3
_PYTHON_MIN = (3, 11)
_PROVIDER_TIMEOUT_S = 3.0


class State(StrEnum):
    """Severity of a finding for `headrace up`.

    MISSING: it cannot run. ON_FIRST_USE: it gets it by itself, and needs the network for that. OPTIONAL: one feature misses it.
    """

    OK = "ok"
    MISSING = "missing"
    ON_FIRST_USE = "on first use"
    OPTIONAL = "optional"


@dataclass(frozen=True)
class Check:
    """A line of the doctor's report: `actual` is the present state, `fix` the remedy when it is not OK."""

    name: str
    state: State
    actual: str
    fix: str


def checks(settings: Settings) -> list[Check]:
    """Return everything that is looked at, in the order of what needs what; takes well under a second, unless a sign-in provider is
    away."""
    makers: list[Callable[[], Check]] = [
        _python,
        _pyspark,
        _java,
        lambda: _jar_group("Spark connector jars", SPARK),
        _extension,
        _archive,
        _web_page,
        lambda: _jar_group("Kafka broker jars", KAFKA_BROKER),
        lambda: _jar_group("Iceberg jars", ICEBERG),
        lambda: _extra("Databricks client", "databricks-sql-connector", "databricks"),
        lambda: _extra("Oracle client", "oracledb", "oracle"),
        lambda: _extra("Snowflake client", "snowflake-connector-python", "snowflake"),
        lambda: _extra("OpenTelemetry SDK", "opentelemetry-sdk", "otel"),
        lambda: _extra("OpenLineage client", "openlineage-python", "openlineage"),
        lambda: _extra("Keyring client", "keyring", "keyring"),
        lambda: _extra("Kubernetes client", "kubernetes", "kubernetes"),
        _confinement,
        _browser,
        lambda: _data_directory(settings.data_dir),
        lambda: _port(settings.host, settings.port),
        lambda: _single_sign_on(settings),
        _cache_directory,
        lambda: _disk("Disk of the data", settings.data_dir),
        lambda: _disk("Disk of the cache", cache_dir()),
    ]
    return [make() for make in makers]


def _check(name: str, actual: str, fix: str, *, ok: bool, otherwise: State = State.MISSING) -> Check:
    return Check(name, State.OK if ok else otherwise, actual, fix)


def _python() -> Check:
    actual = f"{platform.python_version()} ({sys.executable})"
    return _check("Python", actual, "Install Python 3.11 or later.", ok=sys.version_info >= _PYTHON_MIN)


def _pyspark() -> Check:
    fix = "Install headrace with its dependencies again."
    try:
        return Check("pyspark", State.OK, version("pyspark"), fix)
    except PackageNotFoundError:
        return Check("pyspark", State.MISSING, "not installed", fix)


def _java() -> Check:
    try:
        runtime = java_runtime()
    except HeadraceError as error:
        return Check("Java", State.MISSING, error.message, error.hint or "")
    return Check("Java", State.OK, f"{runtime.version} ({runtime.home})", "")


def _jar_group(name: str, group: str) -> Check:
    lacking = missing(group)
    total = len(coordinates(group))
    return _check(
        name,
        f"{total - len(lacking)} of {total} in {cache_dir() / 'jars'}",
        f"They are fetched on first use. To fetch them now: python -m headrace.runtime.jars {group}",
        ok=not lacking,
        otherwise=State.ON_FIRST_USE,
    )


def _extra(name: str, package: str, extra: str) -> Check:
    try:
        actual, ok = version(package), True
    except PackageNotFoundError:
        actual, ok = "not installed", False
    return _check(name, actual, f"pip install 'headrace[{extra}]'", ok=ok, otherwise=State.OPTIONAL)


def _extension() -> Check:
    fix = "It is compiled on first use. To compile it now: python -m headrace.runtime.extension"
    try:
        compiled = extension.is_compiled()
    except HeadraceError as error:
        return Check("JVM extension", State.MISSING, error.message, error.hint or fix)
    actual = "compiled" if compiled else "not compiled yet"
    return _check("JVM extension", actual, fix, ok=compiled, otherwise=State.ON_FIRST_USE)


def _archive() -> Check:
    fix = (
        "Without it, drivers start some seconds later. Create it with make archive: python -m "
        "headrace.engine.driver.archive"
    )
    try:
        # Its name comes from the jars: they must be there to tell.
        is_archived = not missing(SPARK) and extension.is_compiled() and class_archive().is_file()
    except HeadraceError as error:
        return Check("Class archive", State.OPTIONAL, error.message, error.hint or fix)
    return _check(
        "Class archive",
        "made" if is_archived else "not created yet",
        fix,
        ok=is_archived,
        otherwise=State.OPTIONAL,
    )


def _web_page() -> Check:
    page = web_page()
    fix = "Run make setup." if source_tree() else "Install headrace again from a release."
    actual = str(page) if page else "not built"
    return _check("Web page", actual, fix, ok=page is not None, otherwise=State.OPTIONAL)


def _confinement() -> Check:
    obstacle = confined.obstacle()
    fix = "Functions of users are refused: use Linux with Landlock, or trust their code with HEADRACE_FUNCTIONS_CONFINED=off."
    actual = obstacle or f"Landlock, version {confined.landlock_version()}, and seccomp"
    return _check("Confinement of functions", actual, fix, ok=obstacle is None, otherwise=State.OPTIONAL)


def _browser() -> Check:
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    fix = "Only the test of the web page needs it. Install it with make browser."
    return _check(
        "Chromium", browser or "none on PATH", fix, ok=browser is not None, otherwise=State.OPTIONAL
    )


def _data_directory(folder: Path) -> Check:
    lock = folder / "lock"
    if not _writable(folder):
        return Check(
            "Data directory", State.MISSING, f"{folder} is not writable", "Choose another with --data-dir."
        )
    if lock.is_file() and _held(lock):
        return Check(
            "Data directory",
            State.MISSING,
            f"a server is running on {folder}",
            "Stop the server first, or choose another folder with --data-dir.",
        )
    return Check("Data directory", State.OK, str(folder), "")


def _held(lock: Path) -> bool:
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _port(host: str, port: int) -> Check:
    if port == 0:
        return Check("Port", State.OK, "any free one", "")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            fix = "Choose another with --port; 0 selects a free one."
            return Check("Port", State.MISSING, f"{port} of {host}: {error.strerror}", fix)
    return Check("Port", State.OK, f"{port} of {host} is free", "")


def _single_sign_on(settings: Settings) -> Check:
    """Check that the provider answers; users who sign in with a password or a token do not need it."""
    name, issuer = "Single sign-on", settings.oidc_issuer
    if issuer is None:
        return Check(name, State.OK, "not used", "")
    if not settings.oidc_client_id:
        return Check(name, State.MISSING, f"{issuer}, without a client", "Set HEADRACE_OIDC_CLIENT_ID.")
    try:
        answer = httpx.get(
            f"{issuer.rstrip('/')}/.well-known/openid-configuration", timeout=_PROVIDER_TIMEOUT_S
        )
        received = answer.json()["issuer"] if answer.is_success else f"status {answer.status_code}"
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
        received = type(error).__name__
    return _check(
        name,
        issuer if received == issuer else f"{issuer} answers: {received}",
        "HEADRACE_OIDC_ISSUER must be the issuer that the provider reports.",
        ok=received == issuer,
        otherwise=State.OPTIONAL,
    )


def _cache_directory() -> Check:
    folder = cache_dir()
    complete = not missing(SPARK) and not missing(KAFKA_BROKER)
    return _check(
        "Cache directory",
        f"{folder}{'' if _writable(folder) else ' cannot be written'}",
        "Set HEADRACE_CACHE_DIR to a writable folder: fetched and compiled files are stored there.",
        ok=_writable(folder),
        otherwise=State.OPTIONAL if complete else State.MISSING,
    )


def _disk(name: str, folder: Path) -> Check:
    folder = _existing(folder)
    free = shutil.disk_usage(folder).free
    return _check(
        name,
        f"{free / 1024**3:.1f} GiB free at {folder}",
        f"Less than {_FREE_DISK_MIN // 1024**3} GiB fills up soon: free space, or use another disk.",
        ok=free >= _FREE_DISK_MIN,
        otherwise=State.OPTIONAL,
    )


def _existing(folder: Path) -> Path:
    """Return the folder, or the nearest one above it that is there."""
    while not folder.exists():
        folder = folder.parent
    return folder


def _writable(folder: Path) -> bool:
    existing = _existing(folder.absolute())
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)
