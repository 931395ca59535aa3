"""Runs files against servers and brokers of its own: in temporary folders, some files at a time."""

from __future__ import annotations

import os
import queue
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from headrace.core.names import quote
from headrace.core.settings import Settings
from headrace.runtime.kafka_broker import KafkaBroker
from headrace.testing.door import RestDoor
from headrace.testing.patience import Patience
from headrace.testing.runner import FAILURES, Runner
from headrace.testing.server import ServerProcess
from headrace.testing.topics import Topics

DATABASE, STORE = "test", "kafka"
SUFFIX = ".slt"
_PREFIX = "HEADRACE_"
_OBJECTS = """SELECT kind, name FROM deltastream.sys."grants" WHERE privilege = 'OWNERSHIP'"""


@dataclass(frozen=True)
class Options:
    """Options of a run: `settings` are those of the servers, `update` writes the plans that `explain` expects."""

    jobs: int = 1
    seconds: float = 60.0
    update: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """Outcome of a file; `failure` is None if it passed."""

    path: Path
    seconds: float
    failure: str | None = None


def files(places: Sequence[Path], texts: Sequence[str] = ()) -> list[Path]:
    """Return the `.slt` files of the files and folders `places`, whose path contains one of `texts` if there are any."""
    paths: list[Path] = []
    for place in places:
        paths += sorted(place.rglob(f"*{SUFFIX}")) if place.is_dir() else [place]
    unique = dict.fromkeys(paths)
    return [path for path in unique if not texts or any(text in str(path) for text in texts)]


def run(paths: Sequence[Path], options: Options, report: Callable[[Result], None]) -> list[Result]:
    """Run the files and return their results; `report` gets each as it ends. Raises HeadraceError if no broker or server starts."""
    waiting: queue.SimpleQueue[Path] = queue.SimpleQueue()
    for path in paths:
        waiting.put(path)
    results: list[Result] = []
    benches: list[_Bench] = []
    stopping, reporting = threading.Event(), threading.Lock()

    def work() -> None:
        with (
            tempfile.TemporaryDirectory(prefix="headrace-test-") as folder,
            _Bench(Path(folder), options) as bench,
        ):
            benches.append(bench)
            while not stopping.is_set():
                try:
                    path = waiting.get_nowait()
                except queue.Empty:
                    return
                result = bench.run(path)
                with reporting:
                    results.append(result)
                    report(result)

    with ThreadPoolExecutor(min(options.jobs, len(paths))) as pool:
        workers = [pool.submit(work) for _ in range(min(options.jobs, len(paths)))]
        try:
            for worker in workers:
                worker.result()
        except BaseException:
            # A file that waits for rows fails as soon as its server has ended.
            stopping.set()
            for bench in benches:
                bench.stop_server()
            raise
    return sorted(results, key=lambda result: paths.index(result.path))


class _Bench:
    """A broker and a server, which are as new for each file.

    What a file created is dropped after it. If an object remains, the next file has another server: a start costs seconds.
    """

    def __init__(self, folder: Path, options: Options) -> None:
        self._folder = folder
        self._options = options
        self._patience = Patience(options.seconds)
        self._broker = KafkaBroker(folder / "kafka")
        self._topics = Topics("", self._patience)
        self._server: ServerProcess | None = None
        self._servers = 0
        self._objects: set[tuple[str | None, ...]] = set()
        self._life = ExitStack()

    def __enter__(self) -> _Bench:
        with ExitStack() as life:
            life.callback(self.stop_server)
            with ThreadPoolExecutor(1) as pool:  # the broker's JVM and the server's imports take seconds each
                starting = pool.submit(life.enter_context, self._broker)
                self._server = self._started()
                starting.result()
            self._topics = Topics(self._broker.bootstrap, self._patience)
            self._life = life.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._life.close()

    def _started(self) -> ServerProcess:
        self._servers += 1
        server = ServerProcess(
            self._folder / f"data{self._servers}",
            token=secrets.token_urlsafe(24),
            environment=environment(os.environ, self._options.settings),
            patience=Patience(max(self._options.seconds, 60.0)),
        ).start()
        door = RestDoor(server)
        self._objects = _objects(door)
        door.close()
        return server

    def stop_server(self) -> None:
        """End the server; the next file starts another."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    def run(self, path: Path) -> Result:
        """Return the result of a file."""
        start = time.monotonic()
        failure: str | None = None
        if self._server is None:
            self._server = self._started()
        door = RestDoor(self._server)
        try:
            door.execute(_prepared(self._broker.bootstrap))
            runner = Runner(
                door,
                self._topics,
                patience=self._patience,
                update=self._options.update,
                seed=secrets.token_hex(4),
            )
            runner.run(path)
        except FAILURES as error:
            failure = "\n".join([str(error), *_errored(door)])
        seconds = time.monotonic() - start
        try:
            clean = self._clear(door)
        except FAILURES:
            clean = False
        door.close()
        if not clean:
            self.stop_server()
        return Result(path, seconds, failure)

    def _clear(self, door: RestDoor) -> bool:
        """Drop what a file created; return whether the server is as it was at its start."""
        door.execute("USE ROLE sysadmin;")
        for row in door.execute("LIST QUERIES;"):
            if row[3] != "terminated":
                door.execute(f"TERMINATE QUERY {row[0]};")
        for kind in ("database", "store"):
            for name in sorted(str(name) for k, name in _objects(door) - self._objects if k == kind):
                door.execute(f"DROP {kind.upper()} {name} CASCADE;")
        self._topics.drop(self._topics.names())
        return _objects(door) == self._objects


def environment(own: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a server: no setting of the user's own server is in it, only `settings`."""
    names = {_PREFIX + name.upper() for name in Settings.model_fields}
    return {
        **{name: value for name, value in own.items() if name.upper() not in names},
        **{_PREFIX + name.upper(): value for name, value in settings.items()},
    }


def _prepared(bootstrap: str) -> str:
    database, store = quote(DATABASE), quote(STORE)
    return (
        f"CREATE DATABASE {database}; USE DATABASE {database};"
        f"CREATE STORE {store} WITH ('type' = KAFKA, 'uris' = '{bootstrap}', 'tls.disabled' = TRUE);"
        f"USE STORE {store};"
    )


def _objects(door: RestDoor) -> set[tuple[str | None, ...]]:
    return {tuple(row) for row in door.execute(_OBJECTS)}


def _errored(door: RestDoor) -> list[str]:
    """Return a line for each query that failed, with its message."""
    try:
        rows = door.execute("LIST QUERIES;")
    except FAILURES:
        return []
    return [f"query {row[1]} is errored: {row[9]}" for row in rows if row[4] == "errored"]
