"""A real single-node Kafka broker (KRaft), on loopback only, for ``headrace up --with-kafka`` and the tests.

It keeps its data and its ports in one folder: started again there, it has the same topics at the same
address. It ends with the process that started it, even when that is killed.
"""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from headrace.core.errors import ExternalError
from headrace.core.sqlstate import SqlState
from headrace.runtime.guard import guarded
from headrace.runtime.jars import KAFKA_BROKER, jars
from headrace.runtime.java import further_java_options, java_command, refuse_java_options
from headrace.runtime.ports import free_port

_START_TIMEOUT_S = 300.0
"""A broker starts in 5 s on an idle core, and took over 90 s on one that twenty processes shared. One that ends is noticed at once."""
_STOP_GRACE_S = 20.0
_LOG_TAIL_BYTES = 2000
_NODE_ID = 1
_COLLECTOR = "-XX:+UseSerialGC"

# The quorum is named by configuration: a quorum in the metadata log would remember the controller's port for
# ever.
_PROPERTIES = """\
process.roles=broker,controller
node.id={node}
controller.quorum.voters={node}@127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data}
num.partitions=1
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=2
num.network.threads=2
num.io.threads=4
log.cleaner.dedupe.buffer.size=16777216
"""

_LOG_CONFIGURATION = """\
status = error
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %m (%c)%n
"""


class KafkaBroker:
    """A broker process over `data_dir`; also a context manager that starts and stops it.

    `port` 0 takes the port of the last run in that folder when it is free, else any free one. `heap_mb` is
    the JVM's heap in MiB. The log is ``broker.log`` in `data_dir`.
    """

    java_options: Sequence[str] = ()

    def __init__(self, data_dir: Path, *, port: int = 0, heap_mb: int = 384) -> None:
        self._folder = data_dir.resolve()
        self._heap_mb = heap_mb
        self._port = port
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """The address for clients, ``127.0.0.1:port``; known after `start`."""
        return f"127.0.0.1:{self._port}"

    @property
    def log(self) -> Path:
        """The file of the broker's log."""
        return self._folder / "broker.log"

    @property
    def running(self) -> bool:
        """True if the process that was started is still there."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Starts the broker and returns when it answers; formats its folder the first time.

        Raises `ExternalError` when it ends or does not answer in time, or its jars cannot be fetched, and `UserError` for options that
        its JVM refuses.
        """
        if self.running:
            return self
        self.stop()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._configure()
        if not (self._folder / "data" / "meta.properties").is_file():
            self._format()
        self._process = self._spawn(["kafka.Kafka", str(self._folder / "server.properties")])
        try:
            self._wait_until_it_answers()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Ends the broker: asks, waits, then kills. Does nothing when it does not run."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_GRACE_S + 5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin:
            process.stdin.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _configure(self) -> None:
        remembered = self._folder / "ports"
        last = [int(word) for word in remembered.read_text().split()] if remembered.is_file() else []
        # Both are held until both are chosen, so that they differ.
        with ExitStack() as held:
            # Once it has one it keeps it, since clients know it.
            self._port = _hold_port(held, [self._port] if self._port else [*last[:1], free_port()])
            controller_port = _hold_port(held, [*last[1:], free_port()])
        remembered.write_text(f"{self._port} {controller_port}\n", encoding="utf-8")
        (self._folder / "log4j2.properties").write_text(_LOG_CONFIGURATION, encoding="utf-8")
        properties = _PROPERTIES.format(
            node=_NODE_ID, port=self._port, controller_port=controller_port, data=self._folder / "data"
        )
        (self._folder / "server.properties").write_text(properties, encoding="utf-8")

    def _format(self) -> None:
        cluster = base64.urlsafe_b64encode(b"\0" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
        arguments = ["format", "-t", cluster, "-c", str(self._folder / "server.properties")]
        with self._spawn(["kafka.tools.StorageTool", *arguments]) as process:
            code = process.wait(_START_TIMEOUT_S)
        if code:
            refuse_java_options([_COLLECTOR])
            raise self._failure("could not format its folder")

    def _spawn(self, arguments: list[str]) -> subprocess.Popen[bytes]:
        command = [
            str(java_command()),
            f"-Xmx{self._heap_mb}m",
            "-Xms64m",
            _COLLECTOR,
            "-Djava.awt.headless=true",
            f"-Dlog4j2.configurationFile={self._folder / 'log4j2.properties'}",
            *further_java_options(),
            *self.java_options,
            "-cp",
            os.pathsep.join(map(str, jars(KAFKA_BROKER))),
            *arguments,
        ]
        with self.log.open("ab") as log:
            # A session of its own: Ctrl-C in the terminal ends the server, which then ends the broker in
            # order.
            return subprocess.Popen(
                guarded(command, grace_s=_STOP_GRACE_S),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not _listens(self._port):
            self._check_start(deadline)
            time.sleep(0.05)
        client = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        while True:
            try:
                if client.list_topics(timeout=5).brokers:
                    return
            except KafkaException:
                self._check_start(deadline)

    def _check_start(self, deadline: float) -> None:
        if not self.running:
            refuse_java_options([_COLLECTOR])
            raise self._failure("ended while it started")
        if time.monotonic() > deadline:
            raise self._failure(f"did not answer within {_START_TIMEOUT_S:.0f} s")

    def _failure(self, what: str) -> ExternalError:
        tail = (
            self.log.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace").strip()
            if self.log.is_file()
            else ""
        )
        return ExternalError(
            SqlState.STORE_NOT_READY,
            f"the embedded Kafka broker {what}; the end of its log:\n{tail}",
            hint=f"The whole log is {self.log}. The usual causes are a used port or a full disk.",
        )


def _hold_port(held: ExitStack, choices: Sequence[int]) -> int:
    """Return the first of `choices` that can be bound, bound until `held` closes."""
    for port in choices:
        probe = held.enter_context(socket.socket())
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return int(probe.getsockname()[1])
    raise ExternalError(
        SqlState.STORE_NOT_READY,
        f"the embedded Kafka broker cannot listen on port {choices[0]}: another program uses it",
        hint="Stop that program, or specify another port for the broker; 0 selects a free one.",
    )


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=0.5):
            return True
    except OSError:
        return False
