"""The wheel, installed without this repository: its bounds name versions with which a server and a driver start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
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


def install(wheel: Path, resolution: str, folder: Path) -> Path:
    """Create an environment with the wheel and the versions of `resolution`, and return its folder of programs."""
    versions, environment = folder / "versions.txt", folder / "environment"
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
    return environment / "bin"


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


# The newest versions are those of the lock but for days, so the lock's own tests come close to them: `make prove` runs these.
RESOLUTIONS = ["lowest-direct", *(["highest"] if os.environ.get("HEADRACE_PROVE") else [])]


@pytest.mark.parametrize("resolution", RESOLUTIONS)
def test_a_wheel_with_the_outermost_versions_of_its_bounds_starts_a_server_and_its_driver(
    resolution: str, wheel: Path, tmp_path: Path
) -> None:
    programs = install(wheel, resolution, tmp_path)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"HEADRACE_TOKEN": TOKEN, "VIRTUAL_ENV": str(programs.parent)}
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
