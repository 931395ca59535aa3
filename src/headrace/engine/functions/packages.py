"""Packages that functions in Python require, installed from a list with hashes into a folder of their own (ADR 78).

Only wheels are installed, so none of their code is run. pip has the operator's configuration, so that it reads the operator's index.
The executors of a cluster get the installed packages as a file (ADR 100).
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import structlog

from headrace.core.errors import ExternalError, UserError
from headrace.core.sqlstate import SqlState

log = structlog.get_logger()

_INSTALL_S = 300.0
_FILE_BYTES_MAX = 512 * 1024 * 1024
_BYTES_MAX = 1024 * 1024 * 1024
SENT_BYTES_MAX = 96 * 1024 * 1024
"""What the message that starts a query contains of packages, in base64; a frame has 256 MiB at most."""
_OF_PIP = ("PATH", "HOME", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR", "TMPDIR")


def installed(requirements: Path) -> Path:
    """Return the folder with the packages of a list, beside its file; it is installed once. Blocks.

    Raises UserError 22000 for a package that is unknown, has other hashes or no wheel, ExternalError 57015 if pip does not end.
    """
    return _filled(requirements.with_suffix(".packages"), lambda folder: _install(requirements, folder))


def archived(requirements: Path) -> Path:
    """Return a file with the packages of a list, for machines on which they are not installed. Blocks; raises as `installed`, and UserError
    53000 for packages that are too large to be sent."""
    archive = requirements.with_suffix(".packages.zip")
    if archive.is_file():
        return archive
    folder = installed(requirements)
    with tempfile.TemporaryDirectory(dir=requirements.parent) as unfinished:
        written = Path(shutil.make_archive(f"{unfinished}/packages", "zip", folder))
        if (size := written.stat().st_size) > SENT_BYTES_MAX:
            raise _too_large(SENT_BYTES_MAX, size, " for a pool on a cluster")
        written.rename(archive)
    return archive


def unpacked(archive: Path) -> Path:
    """Return the folder with the packages of an archive, beside it. Raises OSError, and BadZipFile for another file."""

    def unpack(folder: Path) -> None:
        with zipfile.ZipFile(archive) as content:
            content.extractall(folder)

    return _filled(archive.with_suffix(""), unpack)


def _filled(folder: Path, fill: Callable[[Path], None]) -> Path:
    """Return the folder; it is filled once, by whoever is first, and is never there in part."""
    if folder.is_dir():
        return folder
    unfinished = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        fill(unfinished)
        try:
            unfinished.rename(folder)
        except OSError:
            # Another one was faster: a folder that is not empty is not replaced.
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def _install(requirements: Path, target: Path) -> None:
    _run_pip(requirements, target)
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    if size > _BYTES_MAX:
        raise _too_large(_BYTES_MAX, size)


def _too_large(limit: int, size: int, where: str = "") -> UserError:
    return UserError(
        SqlState.CONFIGURATION_LIMIT_EXCEEDED,
        f"expected packages of at most {limit >> 20} MiB{where}, received {size >> 20} MiB",
        hint="Remove packages from the list of requirements.",
    )


def _run_pip(requirements: Path, target: Path) -> None:
    options = ["--no-input", "--disable-pip-version-check", "--no-cache-dir", "--no-compile", "--quiet"]
    checks = ["--require-hashes", "--only-binary", ":all:"]
    command = [sys.executable, "-m", "pip", "install", *options, *checks]
    environment = {
        name: text
        for name, text in os.environ.items()
        if name in _OF_PIP or name.startswith("PIP_") or name.lower().endswith("_proxy")
    }
    with subprocess.Popen(
        [*command, "--target", str(target), "--requirement", str(requirements)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        text=True,
    ) as process:
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (_FILE_BYTES_MAX, _FILE_BYTES_MAX))
        try:
            output, _ = process.communicate(timeout=_INSTALL_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise ExternalError(
                SqlState.REMOTE_UNAVAILABLE,
                f"the packages of a function were not installed within {_INSTALL_S:.0f} s",
                hint="Check that the server reaches the package index that pip is configured for.",
            ) from None
    if process.returncode:
        log.warning("packages_not_installed", output=output[-4000:])
        reasons = [line.removeprefix("ERROR: ") for line in output.splitlines() if line.startswith("ERROR: ")]
        raise UserError(
            SqlState.DATA_EXCEPTION,
            f"the packages of a function cannot be installed: {' '.join(reasons[:1] or output.splitlines()[-1:])[:500]}",
            hint="Each package, and each that it depends on, requires a version and the hash of a wheel for this server's Python.",
        )
