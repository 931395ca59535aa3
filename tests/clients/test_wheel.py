"""The wheel, installed without this repository: its bounds name versions with which a server and a driver start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import httpx
import pytest

from harness.patience import PATIENCE_S

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[2]
UV = Path(sys.executable).with_name("uv")
TOKEN = "the-token-of-this-test"


def run(*command: str | Path, environment: Path | None = None) -> None:
    variables = {**os.environ, "VIRTUAL_ENV": str(environment)} if environment else None
    done = subprocess.run(
        list(map(str, command)), cwd=ROOT, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder)
    (file,) = folder.glob("*.whl")
    return file


def install_locked(wheel: Path, environment: Path) -> None:
    """Create an environment with the wheel and the packages of this one: the locked versions, without Headrace's repository."""
    run(UV, "venv", "--quiet", "--python", sys.executable, environment)
    (ours,) = environment.glob("lib/python*/site-packages")
    # Python reads no .pth file in a folder that a .pth file adds, so that the editable install of the repository stays out.
    (ours / "locked.pth").write_text(sysconfig.get_path("purelib") + "\n")
    run(UV, "pip", "install", "--quiet", "--no-deps", wheel, environment=environment)


def install_bounds(wheel: Path, resolution: str, environment: Path) -> None:
    """Create an environment with the wheel and the versions of `resolution`."""
    versions = environment.with_suffix(".txt")
    # The bounds are those of pyproject.toml: "direct" means nothing for a wheel, whose packages are all indirect.
    # With hashes, uv takes what `make setup` has built of source distributions (pyspark) from its cache.
    run(
        UV,
        "pip",
        "compile",
        "--quiet",
        "--python",
        sys.executable,
        "--resolution",
        resolution,
        "--generate-hashes",
        "--output-file",
        versions,
        "pyproject.toml",
    )
    run(UV, "venv", "--quiet", "--python", sys.executable, environment)
    run(
        UV,
        "pip",
        "install",
        "--quiet",
        "--require-hashes",
        "--requirement",
        versions,
        environment=environment,
    )
    run(UV, "pip", "install", "--quiet", "--no-deps", wheel, environment=environment)


def pool_states(url: str) -> list[str]:
    answer = httpx.post(
        f"{url}/v2/statements",
        json={"statement": "LIST COMPUTE_POOLS;"},
        headers={"Authorization": f"Bearer {TOKEN}"},
        trust_env=False,
        timeout=PATIENCE_S,
    ).json()
    columns = [column["name"] for column in answer["metadata"]["columns"]]
    return [row[columns.index("ActualState")] for row in answer["data"]]


@pytest.mark.parametrize(
    "resolution",
    # To install two more environments takes minutes.
    ["locked", *(pytest.param(bound, marks=pytest.mark.prove) for bound in ("lowest-direct", "highest"))],
)
def test_a_wheel_with_any_versions_of_its_bounds_starts_a_server_and_its_driver(
    resolution: str, wheel: Path, tmp_path: Path
) -> None:
    installed = tmp_path / "environment"
    if resolution == "locked":
        install_locked(wheel, installed)
    else:
        install_bounds(wheel, resolution, installed)
    programs = installed / "bin"
    where = subprocess.run(
        [programs / "python", "-I", "-c", "import headrace; print(headrace.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(where.stdout).is_relative_to(installed)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"HEADRACE_TOKEN": TOKEN, "VIRTUAL_ENV": str(installed)}
    log = tmp_path / "stderr"
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [str(programs / "headrace"), "up", "--port", "0", "--data-dir", str(tmp_path / "data")],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    try:
        assert process.stdout
        line = process.stdout.readline()
        assert line.startswith("headrace ready "), log.read_text()[-3000:]
        url = line.split()[-1]
        assert "<!doctype html>" in httpx.get(url, trust_env=False, timeout=PATIENCE_S).text
        deadline = time.monotonic() + PATIENCE_S
        while pool_states(url) != ["running"]:
            assert time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.5)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
