"""A real schema registry: Apicurio, with Confluent's protocol, on loopback and in memory.

It is downloaded once into the cache (160 MB), and checked against `apicurio.lock`. Like Confluent's registry, it refuses schemas that
are not backward compatible: a setting at its start.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from harness.patience import PATIENCE_S
from headrace.runtime.guard import guarded
from headrace.runtime.java import java_command
from headrace.runtime.paths import cache_dir
from headrace.runtime.ports import free_port

LOCK = Path(__file__).with_name("apicurio.lock")
_GRACE_S = 10


class Registry:
    """A registry that runs, by the URL of its server."""

    def __init__(self, server: str) -> None:
        self.server = server
        """Its URL without the path of the protocol, where it answers 404.

        Below the path it loses about one 404 in 200 of those that have no body (3.3.3): its log says that it answered, and no byte
        comes.
        """

    @property
    def url(self) -> str:
        """Address for CREATE SCHEMA_REGISTRY."""
        return f"{self.server}/apis/ccompat/v7"

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return the registry's answer to a request of its protocol."""
        return ask(self.url, method, path, body)


class Apicurio(Registry):
    """A registry of one's own; a context manager that starts and stops it."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "apicurio.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._port = free_port()
        super().__init__(f"http://127.0.0.1:{self._port}")

    def __enter__(self) -> Self:
        command = [str(java_command()), "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += ["-Djava.util.logging.manager=org.jboss.logmanager.LogManager"]
        command += ["-jar", str(installation() / "quarkus-run.jar")]
        settings = {
            "QUARKUS_HTTP_HOST": "127.0.0.1",
            "QUARKUS_HTTP_PORT": str(self._port),
            # Its health is at another port, which would be 9000 of all addresses.
            "QUARKUS_MANAGEMENT_HOST": "127.0.0.1",
            "QUARKUS_MANAGEMENT_PORT": "0",
            "APICURIO_STORAGE_KIND": "sql",
            "APICURIO_STORAGE_SQL_KIND": "h2",
            "APICURIO_DATASOURCE_URL": f"jdbc:h2:mem:registry{self._port};DB_CLOSE_DELAY=-1",
            "APICURIO_DATASOURCE_USERNAME": "sa",
            "APICURIO_DATASOURCE_PASSWORD": "sa",
        }
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                guarded(command, grace_s=_GRACE_S),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, **settings},
                start_new_session=True,
            )
        try:
            self._wait()
            self.ask("PUT", "/config", {"compatibility": "BACKWARD"})
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the registry and lose its schemas."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            process.wait(PATIENCE_S)
            if process.stdin:
                process.stdin.close()

    def _wait(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            assert self._process is not None
            assert self._process.poll() is None, self._log.read_text()[-2000:]
            try:
                self.ask("GET", "/schemas/types")
                return
            except httpx.HTTPError:
                assert time.monotonic() < deadline, self._log.read_text()[-2000:]
                time.sleep(0.1)


def ask(url: str, method: str, path: str, body: Any = None) -> Any:
    """Return the answer of the registry at `url`."""
    answer = httpx.request(method, url + path, json=body, timeout=PATIENCE_S)
    answer.raise_for_status()
    return answer.json()


def register(
    url: str, subject: str, schema: str, kind: str = "AVRO", references: Sequence[Mapping[str, object]] = ()
) -> int:
    """The id of a schema, which is the subject's next version."""
    body = {"schema": schema, "schemaType": kind, "references": list(references)}
    return int(ask(url, "POST", f"/subjects/{subject}/versions", body)["id"])


def installation() -> Path:
    """The folder of the program, fetched and unpacked when it is not there."""
    name, digest = LOCK.read_text().splitlines()[-1].split()
    organization, artifact, version, packaging, classifier = name.split(":")
    folder = cache_dir() / "test-servers" / f"{artifact}-{version}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetching-") as staging:
        mirror = os.environ.get("HEADRACE_MAVEN_REPOSITORY")
        # Imported here, since it takes each process that runs tests a third of a second.
        from jgo.maven import MavenContext

        context = MavenContext(
            repo_cache=Path(staging), remote_repos={"mirror": mirror.rstrip("/")} if mirror else None
        )
        project = context.project(organization, artifact).at_version(version)
        archive = project.artifact(classifier=classifier, packaging=packaging).resolve()
        with archive.open("rb") as file:
            arrived_digest = hashlib.file_digest(file, "sha512").hexdigest()
        assert arrived_digest == digest, (
            f"{name} that arrived is not the one in {LOCK.name}: {arrived_digest}"
        )
        unpacked = Path(staging) / "unpacked"
        with tarfile.open(archive) as tar:
            tar.extractall(unpacked, filter="data")
        roots = [path.parent for path in unpacked.rglob("quarkus-run.jar")]
        assert len(roots) == 1, f"{name} has {len(roots)} quarkus-run.jar"
        if not folder.exists():
            roots[0].rename(folder)
    return folder
