"""The jars that neither Python packages nor this repository bring, by group, fetched once and checked.

``jars.lock`` names each jar and its SHA-512. What is in the cache was checked when it came and is used
offline. The repository is Maven's central one; ``HEADRACE_MAVEN_REPOSITORY`` names a mirror by its base
address. ``python -m headrace.runtime.jars [group …]`` fetches what is missing.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

import structlog

from headrace.core.errors import ExternalError, HeadraceError, InternalError
from headrace.core.sqlstate import SqlState
from headrace.core.wording import counted
from headrace.runtime.paths import cache_dir

SPARK = "spark"
KAFKA_BROKER = "kafka-broker"
ICEBERG = "iceberg"
S3_CHECKPOINTS = "s3-checkpoints"
JVM_TEST = "jvm-test"

log = structlog.get_logger()

_PARALLEL_DOWNLOADS = 8
_DOWNLOAD_TIMEOUT_S = 60
_ATTEMPTS = 3


@dataclass(frozen=True)
class Coordinate:
    """A jar of a Maven repository with its digest."""

    organization: str
    artifact: str
    version: str
    sha512: str
    classifier: str = ""

    @property
    def file_name(self) -> str:
        """The jar's name in the repository and in the cache."""
        return "-".join(part for part in (self.artifact, self.version, self.classifier) if part) + ".jar"

    @property
    def path(self) -> Path:
        """The jar's place in the cache, present or not."""
        return cache_dir() / "jars" / self.file_name

    def __str__(self) -> str:
        parts = (self.organization, self.artifact, self.version, self.classifier)
        return ":".join(part for part in parts if part)

    @classmethod
    def of(cls, text: str, sha512: str = "") -> Coordinate | None:
        """Parse `organization:artifact:version[:classifier]`; None for a text of another form."""
        parts = text.split(":")
        if len(parts) not in (3, 4):
            return None
        return cls(parts[0], parts[1], parts[2], sha512, *parts[3:])


def jars(group: str) -> list[Path]:
    """Return the jars of `group`, fetched when they are missing.

    Raises `ExternalError` when a jar cannot be fetched or is not the one that the lock names.
    """
    absent = missing(group)
    if absent:
        began = time.monotonic()
        log.info("fetching_jars", group=group, jars=len(absent), folder=str(cache_dir() / "jars"))
        fetch(absent)
        log.info("fetched_jars", group=group, seconds=round(time.monotonic() - began, 1))
    return [coordinate.path for coordinate in coordinates(group)]


def missing(group: str) -> list[Coordinate]:
    """Return the jars of `group` that are not in the cache yet."""
    return [coordinate for coordinate in coordinates(group) if not coordinate.path.is_file()]


def coordinates(group: str) -> tuple[Coordinate, ...]:
    """Return the jars that the lock names for `group`. Raises `InternalError` for a group that it does not have."""
    groups = locked_groups()
    if group not in groups:
        raise InternalError(f"expected a group of jars.lock ({', '.join(groups)}), found {group}")
    return groups[group]


@cache
def locked_groups() -> Mapping[str, tuple[Coordinate, ...]]:
    """Return all of ``jars.lock``: group name to jars."""
    return MappingProxyType(parse_lock(files(__package__).joinpath("jars.lock").read_text(encoding="utf-8")))


def parse_lock(text: str) -> dict[str, tuple[Coordinate, ...]]:
    """Reads a lock: ``[group]`` lines, each followed by ``organization:artifact:version[:classifier] sha512`` lines.

    Raises `InternalError` for a line of another form, or a digest that is not one.
    """
    groups: dict[str, list[Coordinate]] = {}
    members: list[Coordinate] | None = None
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.partition("#")[0].strip()
        if not line:
            continue
        if line.startswith("[") and line.endswith("]"):
            members = groups.setdefault(line[1:-1], [])
            continue
        name, _, digest = line.partition(" ")
        coordinate = Coordinate.of(name, digest.strip())
        if members is None or coordinate is None or len(coordinate.sha512) != 128:
            raise InternalError(
                f"jars.lock, line {number}: expected organization:artifact:version and a SHA-512, "
                f"found {line[:80]}",
                hint="Run python scripts/lock_jars.py to add the missing digests.",
            )
        members.append(coordinate)
    return {group: tuple(entries) for group, entries in groups.items()}


def fetch(requested: Iterable[Coordinate]) -> None:
    """Puts each of `requested` into the cache, several at a time.

    Raises `ExternalError` when a jar cannot be fetched or is not the one that the lock names.
    """
    todo = list(requested)
    if not todo:
        return
    folder = cache_dir() / "jars"
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=folder, prefix=".fetching-") as staging,
        ThreadPoolExecutor(_PARALLEL_DOWNLOADS) as pool,
    ):
        try:
            list(pool.map(lambda coordinate: _fetch_one(coordinate, Path(staging)), todo))
        except HeadraceError:
            pool.shutdown(cancel_futures=True)
            raise


def _fetch_one(coordinate: Coordinate, staging: Path) -> None:
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            arrived = download(coordinate, staging / f"{coordinate.file_name}.{attempt}")
        except ExternalError:
            if attempt == _ATTEMPTS:
                raise
            continue
        digest = hashlib.sha512(arrived.read_bytes()).hexdigest()
        if digest == coordinate.sha512:
            arrived.rename(coordinate.path)
            return
    raise ExternalError(
        SqlState.REMOTE_UNAVAILABLE,
        f"the downloaded jar {coordinate} does not match jars.lock: expected SHA-512 {coordinate.sha512[:16]}…, "
        f"found {digest[:16]}…",
        hint="A proxy or mirror may have changed it. Nothing was kept; set another mirror in "
        "HEADRACE_MAVEN_REPOSITORY.",
    )


def download(coordinate: Coordinate, staging: Path) -> Path:
    """Fetches one jar below `staging`, unchecked. Raises `ExternalError` when that fails."""
    # Imported late: it brings a whole HTTP client, and mostly nothing is missing.
    import requests
    from jgo.maven import MavenContext

    mirror = os.environ.get("HEADRACE_MAVEN_REPOSITORY")
    context = MavenContext(
        repo_cache=staging,
        remote_repos={"mirror": mirror.rstrip("/")} if mirror else None,
        timeout=_DOWNLOAD_TIMEOUT_S,
    )
    project = context.project(coordinate.organization, coordinate.artifact)
    try:
        return project.at_version(coordinate.version).artifact(classifier=coordinate.classifier).resolve()
    except (requests.RequestException, RuntimeError, OSError) as error:
        raise ExternalError(
            SqlState.REMOTE_UNAVAILABLE,
            f"cannot fetch the jar {coordinate} ({type(error).__name__})",
            hint="Check the network and HTTPS_PROXY, or set a reachable Maven mirror in "
            f"HEADRACE_MAVEN_REPOSITORY, or put {coordinate.file_name} into {coordinate.path.parent}.",
        ) from error


def main(arguments: list[str]) -> int:
    """Fetch missing jars of the named groups, by default of those that the product needs; return the exit code."""
    for group in arguments or [SPARK, KAFKA_BROKER]:
        try:
            absent = missing(group)
            if absent:
                print(f"headrace: fetching {counted(len(absent), 'jar')} for {group}", flush=True)
                fetch(absent)
        except HeadraceError as error:
            print(f"headrace: {error.text()}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
