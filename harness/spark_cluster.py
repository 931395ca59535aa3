"""A real Spark cluster: a standalone master and workers, from pyspark's own jars, each at its own loopback address.

Processes of the cluster know its secret from their environment, and share no folder with the server or with each other.
"""

from __future__ import annotations

import base64
import os
import secrets
import shlex
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from harness.patience import PATIENCE_S
from headrace.runtime.extension import pyspark_folder
from headrace.runtime.guard import guarded
from headrace.runtime.java import further_java_options, java_command, spark_java
from headrace.runtime.ports import free_port
from headrace.testing.processes import running_after

_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
_GRACE_S = 10
_MEMORY_MB = 256
_SETTINGS = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.authEngineVersion": "2",
    "spark.network.crypto.saslFallback": "false",
    # Neither of the two doors of a master that ask for no secret.
    "spark.master.rest.enabled": "false",
    "spark.ui.killEnabled": "false",
    # A master and a worker cannot run without their pages; this filter answers only requests with a signed token.
    "spark.ui.filters": "org.apache.spark.ui.JWSFilter",
}


class SparkCluster:
    """Cluster in `folder` of a master and `workers` workers, each with a core and a GiB for each of `drivers`; a context manager that
    starts and stops them."""

    def __init__(self, folder: Path, *, workers: int = 2, drivers: int = 1) -> None:
        self.folder = folder
        self._drivers = drivers
        self.secret = secrets.token_urlsafe(32)
        self.workers = [
            f"127.0.0.{number + 2}" if sys.platform == "linux" else "127.0.0.1" for number in range(workers)
        ]
        """Each worker's address."""
        self.master = f"spark://127.0.0.1:{free_port()}"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def environment(self) -> dict[str, str]:
        """The settings of a server whose drivers use this cluster, with the Python of the tests."""
        return {
            "HEADRACE_SPARK_MASTER": self.master,
            "HEADRACE_SPARK_SECRET": self.secret,
            "HEADRACE_WORKER_PYTHON": sys.executable,
        }

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = self.folder / "spark.conf"
        key = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
        lines = {
            **_SETTINGS,
            "spark.deploy.defaultCores": str(len(self.workers)),
            "spark.org.apache.spark.ui.JWSFilter.param.secretKey": key,
        }
        settings.touch(mode=0o600)
        settings.write_text("".join(f"{name} {value}\n" for name, value in lines.items()))
        self._write_java()
        try:
            self.start_master()
            for number in range(len(self.workers)):
                self.start_worker(number)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start_master(self) -> None:
        """Start a master, at the same address as the one before, of which it knows nothing."""
        port = self.master.rsplit(":", 1)[1]
        self._start("master", "127.0.0.1", [_MASTER, "--port", port], "I have been elected leader")

    def kill_master(self) -> None:
        """kill -9 of the master; workers and executors run on."""
        self._kill("master")

    def start_worker(self, number: int) -> None:
        """Start a worker and return when the master knows it."""
        work = ["--work-dir", str(self.folder / f"worker-{number}" / "work")]
        command = [_WORKER, "-c", str(self._drivers), "-m", f"{self._drivers}g", *work, self.master]
        self._start(f"worker-{number}", self.workers[number], command, "Successfully registered with master")

    def pid(self, name: str) -> int:
        """The process id of the JVM of `master`, `worker-0`, `worker-1` …"""
        return self._jvm(name).pid

    def executors(self, number: int | None = None) -> list[psutil.Process]:
        """The executors that run on a worker, or on all."""
        names = [f"worker-{each}" for each in range(len(self.workers)) if number in (None, each)]
        children = []
        for name in names:
            with suppress(psutil.Error, IndexError):  # it may be ending just now
                children += [child for child in self._jvm(name).children() if _EXECUTOR in child.cmdline()]
        return children

    def kill_worker(self, number: int) -> None:
        """kill -9 of a worker; its executors end by themselves when they notice, and `start_worker` starts another."""
        executors = self.executors(number)
        self._kill(f"worker-{number}")
        running_after(executors, PATIENCE_S)

    def processes(self, number: int) -> list[psutil.Process]:
        """The JVM of a worker, its executors and their Python processes."""
        worker = self._jvm(f"worker-{number}")
        return [worker, *worker.children(recursive=True)]

    def fill_disk(self, number: int, *, full: bool) -> None:
        """Let each write to a file fail, for a worker and all that it has started or starts, as on a full disk; or let them write again.

        A limit of 0 bytes for the size of files needs no rights and no file system of its own. Writes fail where they do on a full disk,
        with EFBIG instead of ENOSPC, which Java and Python report as the same class of error.
        """
        for process in self.processes(number):
            with suppress(psutil.NoSuchProcess):
                _, hard = process.rlimit(psutil.RLIMIT_FSIZE)
                process.rlimit(psutil.RLIMIT_FSIZE, (0 if full else hard, hard))

    def logs(self) -> str:
        """The ends of the logs of all processes."""
        paths = [*self.folder.glob("*.log"), *self.folder.rglob("stderr"), *self.folder.rglob("stdout")]
        return "\n".join(f"{path}:\n{path.read_text(errors='replace')[-4000:]}" for path in sorted(paths))

    def stop(self) -> None:
        """End all processes of the cluster."""
        executors = self.executors()
        for name in sorted(self._processes, reverse=True):  # the workers, then the master
            process = self._processes.pop(name)
            process.terminate()
            _ended(process)
        alive = running_after(executors, PATIENCE_S)
        assert not alive, f"executors that run on after the end of their workers: {alive}"

    def _write_java(self) -> None:
        """Write the Java of executors. Spark starts them with a module that the bundled Java lacks, and which Spark can do without."""
        java = self.folder / "java" / "bin" / "java"
        java.parent.mkdir(parents=True)
        options = shlex.join([str(java_command()), *further_java_options()])
        java.write_text(
            "#!/bin/sh\n"
            f'for option; do shift; [ "$option" = {_VECTOR_MODULE} ] || set -- "$@" "$option"; done\n'
            f'exec {options} "$@"\n'
        )
        java.chmod(0o700)

    def _start(self, name: str, host: str, command: list[str], ready: str) -> None:
        folder = self.folder / name
        for part in ("local", "tmp"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        jars = pyspark_folder() / "jars" / "*"
        java = [
            *spark_java(_MEMORY_MB),
            "-XX:+UseSerialGC",
            f"-Djava.io.tmpdir={folder / 'tmp'}",
            "-cp",
            str(jars),
        ]
        place = ["--host", host, "--webui-port", "0", "--properties-file", str(self.folder / "spark.conf")]
        environment = {
            "PATH": os.environ["PATH"],
            "TZ": "UTC",
            "JAVA_HOME": str(self.folder / "java"),
            "SPARK_HOME": str(pyspark_folder()),
            # What Spark's shell scripts set. Without it, a worker looks for a build of Spark.
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_LOCAL_IP": host,
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            "_SPARK_AUTH_SECRET": self.secret,
        }
        path = self.folder / f"{name}.log"
        before = path.stat().st_size if path.exists() else 0
        with path.open("ab") as log:
            self._processes[name] = subprocess.Popen(
                guarded([*java, command[0], *place, *command[1:]], grace_s=_GRACE_S),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=folder,
                env=environment,
                start_new_session=True,
            )
        deadline = time.monotonic() + PATIENCE_S
        while ready not in path.read_text(errors="replace")[before:]:
            assert self._processes[name].poll() is None, path.read_text(errors="replace")[-4000:]
            assert time.monotonic() < deadline, path.read_text(errors="replace")[-4000:]
            time.sleep(0.1)

    def _kill(self, name: str) -> None:
        process = self._processes.pop(name)
        psutil.Process(process.pid).children()[0].kill()
        _ended(process)

    def _jvm(self, name: str) -> psutil.Process:
        return psutil.Process(self._processes[name].pid).children()[0]


def _ended(process: subprocess.Popen[bytes]) -> None:
    process.wait(PATIENCE_S)
    if process.stdin:
        process.stdin.close()
