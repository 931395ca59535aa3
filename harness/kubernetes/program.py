"""The program of `apiserver/`, compiled from the sources of Kubernetes by Go."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from headrace.runtime.paths import cache_dir

_SOURCES = Path(__file__).with_name("apiserver")
_NEEDED = "Go 1.26 or newer, access to Go's module proxy, 3 GB of disk, 4 GB of memory, and ten minutes"


class NotCompiledError(Exception):
    """The program cannot be compiled on this machine, and why."""


def program() -> Path:
    """Return the program, compiled if the cache lacks it. Raises NotCompiledError."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum", "main.go"):
        digest.update((_SOURCES / name).read_bytes())
    compiled = cache_dir() / "kube-apiserver" / digest.hexdigest()[:16] / "apiserver"
    if not compiled.is_file():
        _compile(compiled)
    return compiled


def _compile(target: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise NotCompiledError(
            f"tests against a real kube-apiserver need {_NEEDED}: there is no `go` in PATH"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        # Each of two compilers needs up to 1.5 GB. -mod=readonly: all modules are those of go.sum.
        options = ("-p", "2", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags=-s -w")
        result = subprocess.run(
            [go, "build", *options, "-o", f"{folder}/apiserver", "."],
            cwd=_SOURCES,
            env={**os.environ, "GOFLAGS": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode:
            raise NotCompiledError(
                f"a kube-apiserver cannot be compiled, which needs {_NEEDED}:\n{result.stderr[-2000:]}"
            )
        Path(folder, "apiserver").rename(target)
