"""The web page: where its built files are, and how a checkout builds them.

``python -m headrace.runtime.webpage`` builds ``web/dist`` when a source of it changed, and with ``--check`` runs
its linter, its type checker and its unit tests instead. A wheel carries it built.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from headrace.core.errors import HeadraceError, InternalError
from headrace.runtime.paths import shipped, source_tree

_NODE_MAJOR = 20
_NOT_SOURCES = {"node_modules", "dist", "test-results", ".vite"}
_STAMP = ".headrace-sources"


def web_page() -> Path | None:
    """Return the folder of the built page (``index.html`` and its assets), or None when it was not built."""
    folder = shipped("_web", in_tree="web/dist")
    return folder if folder and (folder / "index.html").is_file() else None


def documentation_site() -> Path | None:
    """Return the folder of the built documentation, or None when it was not built."""
    folder = shipped("_site", in_tree="build/docs")
    return folder if folder and (folder / "index.html").is_file() else None


def build() -> Path:
    """Builds the page of a checkout unless it is up to date; returns its folder.

    Raises `InternalError` when there is no Node to build with or the build fails.
    """
    web = _sources()
    stamp = web / "dist" / _STAMP
    digest = _digest(web)
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == digest:
        return web / "dist"
    install_packages(web)
    _npm(web, "run", "build")
    stamp.write_text(digest, encoding="utf-8")
    return web / "dist"


def check() -> None:
    """Lints and type-checks the page of a checkout and runs its unit tests.

    Raises `InternalError` with what was found, or when there is no Node.
    """
    web = _sources()
    install_packages(web)
    _npm(web, "run", "check")
    _npm(web, "test")


def _sources() -> Path:
    tree = source_tree()
    if tree is None or not (tree / "web" / "package.json").is_file():
        raise InternalError(
            "expected a checkout with web/package.json: an installed package contains the built page"
        )
    return tree / "web"


def install_packages(folder: Path) -> None:
    """Install into `folder` the packages of its package-lock.json; does nothing if they are there.

    Raises `InternalError` when there is no Node or a package cannot be had.
    """
    stamp = folder / "node_modules" / _STAMP
    with (folder / "package-lock.json").open("rb") as locked:
        # `npm ci` empties node_modules first: of processes that start together, one installs and the others wait.
        fcntl.flock(locked, fcntl.LOCK_EX)
        digest = hashlib.sha256(locked.read()).hexdigest()
        if stamp.is_file() and stamp.read_text(encoding="utf-8") == digest:
            return
        _npm(folder, "ci", "--no-audit", "--no-fund", "--loglevel=error")
        stamp.write_text(digest, encoding="utf-8")


def _npm(folder: Path, *arguments: str) -> None:
    node = node_folder()
    environment = {
        **os.environ,
        "PATH": f"{node}{os.pathsep}{os.environ.get('PATH', '')}",
        "NO_COLOR": "1",
    }
    _run([str(node / "npm"), *arguments], folder, environment)


def node_folder() -> Path:
    """Return the folder of a ``node`` of version 20 or later and its ``npm``: the system's, else this environment's.

    Raises `InternalError` when there is neither.
    """
    # Not resolved: `python` in a venv is a link, and the programs beside the link are meant.
    own = Path(sys.executable).parent
    search = [Path(part) for part in os.environ.get("PATH", "").split(os.pathsep) if part]
    for folder in [*search, own]:
        if (folder / "npm").exists() and _node_major(folder / "node") >= _NODE_MAJOR:
            return folder
    raise InternalError(
        f"expected Node {_NODE_MAJOR} or later to build the web page, found none",
        hint="Run make setup: it installs Node as a Python package.",
    )


def _node_major(node: Path) -> int:
    program = shutil.which(node)
    if program is None:
        return 0
    shown = subprocess.run(
        [program, "--version"], capture_output=True, text=True, timeout=60, check=False
    ).stdout
    version = re.match(r"v(\d+)\.", shown)
    return int(version[1]) if version else 0


def _digest(web: Path) -> str:
    digest = hashlib.sha256()
    for folder, names, files in os.walk(web):
        names[:] = sorted(set(names) - _NOT_SOURCES)
        for name in sorted(files):
            path = Path(folder, name)
            digest.update(str(path.relative_to(web)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    result = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if result.returncode:
        shown = " ".join(["npm", *command[1:]])
        raise InternalError(f"{shown} failed in {folder.name}/:\n{result.stdout.strip()[-4000:]}")


def main() -> int:
    """Builds the page and prints where it is, or checks it; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m headrace.runtime.webpage")
    parser.add_argument("--check", action="store_true", help="lint, type-check and test instead of building")
    try:
        if parser.parse_args().check:
            check()
        else:
            print(build())
    except HeadraceError as error:
        print(f"headrace: {error.text()}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
