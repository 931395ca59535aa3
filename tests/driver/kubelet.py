"""A stand-in for scheduler and kubelet: runs the pods of the API, a real one or a stand-in, as processes of this machine.

There are no containers, so that these processes are not confined, and their volumes are folders whose names replace the mount paths.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import psutil

from harness.authority import Authority
from harness.folders import logs_below
from harness.kubernetes import Namespace
from harness.kubernetes.namespace import files_of
from harness.patience import PATIENCE_S
from headrace.core.settings import SECRETS
from headrace.engine.kubernetes.pods import BUCKET_FILE
from headrace.testing.processes import running_after
from tests.unit.engine.kubernetes_api import ACCOUNT, Manifest, StandInApi

Api = StandInApi | Namespace

_INTERVAL_S = 0.05
_ADDRESS = "127.0.0.1"
_DRIVER = """
import sys
from headrace.engine.driver import kubernetes
from headrace.engine.driver.__main__ import main
kubernetes._ACCOUNT, kubernetes.CREDENTIALS = sys.argv.pop(1), kubernetes.Path(sys.argv.pop(1))
sys.exit(main())
"""
"""The driver with the folders of this machine in place of two that its container mounts."""


@dataclass
class RunningPod:
    """The process of a pod, and its log."""

    uid: str
    process: subprocess.Popen[bytes]
    log: Path
    is_reported: bool = False
    kill_at: float | None = None
    """The end of its grace period, by the monotonic clock, once it is to end."""


class Kubelet:
    """Pods as processes, within the context. `driver` are the arguments of Python for another driver than the real one."""

    def __init__(self, api: Api, folder: Path, *, driver: Sequence[str] = ()) -> None:
        self.grace_s: float | None = None
        """Seconds between SIGTERM and SIGKILL, if they are not those of the manifests."""
        self.pods: dict[str, RunningPod] = {}
        self.started: list[subprocess.Popen[bytes]] = []
        self._api = api
        self._folder = folder
        self._driver = driver
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()
        for process in self.started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def living(self) -> list[psutil.Process]:
        """Return the processes of pods that live."""
        return [psutil.Process(process.pid) for process in self.started if process.poll() is None]

    def logs(self) -> str:
        """Return the ends of the logs of all pods so far."""
        return "\n".join(
            f"{path}:\n{path.read_text(errors='replace')[-4000:]}" for path in logs_below(self._folder)
        )

    def _run(self) -> None:
        while not self._is_over.wait(_INTERVAL_S):
            with self._api.changed:
                pods = dict(self._api.objects["pods"])
                for name in self.pods.keys() - pods.keys():
                    # The API removes a pod at once if its containers have ended.
                    _kill(self.pods.pop(name))
                for name, pod in pods.items():
                    running = self.pods.get(name)
                    if running is None or running.uid != pod["metadata"]["uid"]:
                        self._start(name, pod)
                    elif running.process.poll() is not None:
                        self._ended(name, pod, running)
                    elif "deletionTimestamp" in pod["metadata"]:
                        self._end(pod, running)

    def _end(self, pod: Manifest, running: RunningPod) -> None:
        if running.kill_at is None:
            grace_s = (
                self.grace_s if self.grace_s is not None else pod["spec"]["terminationGracePeriodSeconds"]
            )
            running.kill_at = time.monotonic() + grace_s
            running.process.terminate()
        elif time.monotonic() > running.kill_at:
            running.process.kill()

    def _start(self, name: str, pod: Manifest) -> None:
        if "deletionTimestamp" in pod["metadata"]:
            self._api.remove(name)
            return
        if "nodeName" not in pod["spec"]:
            self._api.bind(name)
            return
        folder = self._folder / f"{name}-{pod['metadata']['uid'][:4]}"
        paths = self._mounts(pod, folder)
        if paths is None:
            return
        [container] = pod["spec"]["containers"]
        log = folder / "pod.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                self._command(container, paths),
                cwd=paths[container["workingDir"]] if "workingDir" in container else folder,
                env=self._environment(pod, container, paths),
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self.started.append(process)
        self.pods[name] = RunningPod(pod["metadata"]["uid"], process, log)
        self._api.set_status(
            name,
            {
                "phase": "Running",
                "podIP": _ADDRESS,
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [_container(container, running={})],
            },
        )

    def _mounts(self, pod: Manifest, folder: Path) -> dict[str, Path] | None:
        """Return the folders that replace mount paths; None while a secret is missing."""
        [container] = pod["spec"]["containers"]
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        paths = {}
        for mount in container["volumeMounts"]:
            volume = volumes[mount["name"]]
            files = {}
            if "secret" in volume:
                secret = self._api.objects["secrets"].get(volume["secret"]["secretName"])
                if secret is None:
                    return None
                texts = files_of(secret)
                files = {item["path"]: texts[item["key"]] for item in volume["secret"]["items"]}
            if mount["mountPath"] == ACCOUNT:
                files = {"token": self._api.token(pod), "ca.crt": self._api.certificate}
            if "persistentVolumeClaim" in volume or mount["mountPath"] == "/tmp":
                continue
            path = paths[mount["mountPath"]] = folder / mount["name"]
            path.mkdir(parents=True, exist_ok=True)
            for file, text in files.items():
                (path / file).write_text(text)
        return paths

    def _command(self, container: Manifest, paths: dict[str, Path]) -> list[str]:
        command = [*container["command"], *container.get("args", ())]
        assert command[:2] == ["python", "-m"]
        if command[2] == "headrace.engine.driver":
            folders = (str(paths[ACCOUNT]), str(paths["/etc/headrace/driver"]))
            start = [*(self._driver or ("-c", _DRIVER, *folders))]
            return [sys.executable, *start, *(_replaced(part, paths) for part in command[3:])]
        # Without the arguments of Spark's own images, which runtime/executor.py does not need.
        return [sys.executable, "-m", command[2]]

    def _environment(self, pod: Manifest, container: Manifest, paths: dict[str, Path]) -> dict[str, str]:
        """Return the variables of a container, those of the cluster's API included."""
        variables = {name: text for name, text in os.environ.items() if name not in SECRETS}
        address = urlsplit(self._api.url)
        variables |= {"KUBERNETES_SERVICE_HOST": _ADDRESS, "KUBERNETES_SERVICE_PORT": str(address.port)}
        fields = {"status.podIP": _ADDRESS, "metadata.name": pod["metadata"]["name"]}
        for variable in container.get("env", ()):
            source = variable.get("valueFrom")
            value = fields[source["fieldRef"]["fieldPath"]] if source else variable.get("value", "")
            variables[variable["name"]] = _replaced(value, paths)
        return variables

    def _ended(self, name: str, pod: Manifest, running: RunningPod) -> None:
        _kill(running)
        if not running.is_reported:
            running.is_reported = True
            code = running.process.returncode
            [container] = pod["spec"]["containers"]
            self._api.logs[name] = running.log.read_text(errors="replace")
            ended = {"exitCode": code if code >= 0 else 128 - code}
            self._api.set_status(
                name,
                {
                    "phase": "Failed" if code else "Succeeded",
                    "containerStatuses": [_container(container, terminated=ended)],
                },
            )
        if "deletionTimestamp" in pod["metadata"]:
            self._api.remove(name)
            self.pods.pop(name, None)


def _kill(running: RunningPod) -> None:
    with suppress(ProcessLookupError):
        os.killpg(running.process.pid, signal.SIGKILL)


def wait_for_none(processes: list[psutil.Process]) -> None:
    """Return when all processes have ended."""
    alive = running_after(processes, PATIENCE_S)
    assert not alive


def _replaced(text: str, paths: dict[str, Path]) -> str:
    for path in sorted(paths, key=len, reverse=True):
        text = re.sub(rf"(?<![\w./-]){re.escape(path)}(?![\w.-])", str(paths[path]), text)
    return text


def _container(container: Manifest, **state: Any) -> Manifest:
    known = {"name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0}
    return {**known, "ready": "running" in state, "state": state}


@contextmanager
def served_api(folder: Path) -> Iterator[StandInApi]:
    """Serve the stand-in for the API at an address that is in its certificate."""
    authority, file = Authority(), folder / "api.pem"
    file.write_bytes(authority.key_and_certificate(ipaddress.ip_address(_ADDRESS)))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    api = StandInApi(context, authority.pem)
    api.start()
    try:
        yield api
    finally:
        api.close()


def assert_secrets_are_nowhere(api: Api, *folders: Path) -> None:
    """Assert that the secrets of the driver are in no manifest of a pod, in no command line, and in no log below the folders."""
    [secret] = api.objects["secrets"].values()
    files = files_of(secret)
    login = json.loads(files.pop(BUCKET_FILE, "{}"))
    keys = [text for name, text in login.items() if name.endswith("SECRET_ACCESS_KEY")]
    texts = [*files.values(), *keys]
    assert len(files) == 3
    assert len(keys) == bool(login)
    manifests = json.dumps(api.objects["pods"])
    assert not [text for text in texts if json.dumps(text)[1:-1] in manifests]
    for process in psutil.process_iter(["cmdline"]):
        assert not [text for text in texts if text in " ".join(process.info["cmdline"] or ())]
    for log in (log for folder in folders for log in logs_below(folder)):
        content = log.read_text(errors="replace")
        assert not [text for text in texts if text in content]
