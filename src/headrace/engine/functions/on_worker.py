"""Program that an executor of a cluster starts as a worker of functions: `python -m headrace.engine.functions.on_worker CODE FOLDER`.

The paths of a worker's command are those of its machine, which only this program knows. CODE is JSON as `SentCode`, and FOLDER contains
the files that the driver has sent to the executor. The program becomes the worker, confined as on the server's machine. Where the machine
cannot confine it, no code of a user is run, and each frame is answered with the reason.

A worker of functions that connect to other hosts is a child of the program, which is the proxy of its connections: sockets cannot be passed
from the server's machine.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import BinaryIO, Literal
from zipfile import BadZipFile

from pydantic import BaseModel

from headrace.connectors.egress import Egress
from headrace.core.errors import HeadraceError
from headrace.engine.functions import commands
from headrace.engine.functions.egress_proxy import serve
from headrace.engine.functions.packages import unpacked
from headrace.engine.functions.protocol import ERROR, HEADER, NUMBER
from headrace.runtime import confined

_START_S = 60.0
_PR_SET_PDEATHSIG = 1


class SentCode(BaseModel):
    """Names of the files that a worker runs, of Python those of archives with packages too, and, of Java, of the jars that it consists of;
    the limit of its memory; the hosts to which the functions connect, and the addresses that the operator allows."""

    language: Literal["java", "python"]
    files: list[str]
    libraries: list[str]
    memory_mb: int
    is_confined: bool
    destinations: list[str]
    egress: list[str]

    def worker(self, folder: Path) -> dict[str, object]:
        """Return the argument of `runtime/confined.py`. Raises UserError if the machine has no Java that runs it, and OSError or
        BadZipFile if packages cannot be unpacked beside their file."""
        first, *others = files = [folder / name for name in self.files]
        connects = bool(self.destinations)
        if self.language == "python":
            packages = [unpacked(archive) for archive in others]
            worker = commands.of_python(first, packages, self.memory_mb, connects=connects)
        else:
            libraries = [folder / name for name in self.libraries]
            worker = commands.of_java(files, libraries, self.memory_mb, connects=connects)
        return {**worker, "confined": self.is_confined}


def refuse(reason: str, frames: BinaryIO, answers: BinaryIO) -> None:
    """Answer each frame with an error that has the reason, until there are no more. `FunctionWorker.scala` describes frames."""
    content = NUMBER.pack(-1) + reason.encode()
    while header := frames.read(HEADER.size):
        _, length = HEADER.unpack(header)
        frames.read(length)
        answers.write(HEADER.pack(ERROR, len(content)) + content)
        answers.flush()


def run_with_proxy(code: SentCode, worker: dict[str, object]) -> int:
    """Run the worker, and serve its connections until it ends; return its exit status."""
    network = confined.PASSED if code.language == "python" else confined.SUPERVISED
    worker |= {"destinations": code.destinations, "network": network}
    # Nobody but this user reaches the socket, and only until the worker is connected.
    with (
        tempfile.TemporaryDirectory(prefix="headrace-egress-") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener,
    ):
        listener.bind(f"{folder}/s")
        listener.listen(1)
        listener.settimeout(_START_S)
        process = subprocess.Popen(
            commands.launching({**worker, "proxy": f"{folder}/s"}), preexec_fn=_end_with_parent
        )
        # The frames are the worker's alone: its caller sees its end by them.
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        connection, _ = listener.accept()
    connection.setblocking(True)
    threading.Thread(target=serve, args=(connection, Egress(tuple(code.egress))), daemon=True).start()
    return process.wait()


def _end_with_parent() -> None:
    """Let the kernel kill this process when its parent ends: an executor kills the program that it has started."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def main() -> None:
    """Become the worker, or its proxy."""
    code, folder = SentCode.model_validate_json(sys.argv[1]), Path(sys.argv[2]).resolve()
    obstacle = confined.obstacle() if code.is_confined else None
    try:
        worker = code.worker(folder)
    except HeadraceError as error:
        obstacle = error.message
    except (OSError, BadZipFile) as error:
        obstacle = f"their packages cannot be unpacked: {error}"
    if obstacle is not None:
        reason = f"functions of users cannot be run on the worker {socket.gethostname()}: {obstacle}"
        refuse(reason, sys.stdin.buffer, sys.stdout.buffer)
        return
    if code.is_confined and code.destinations:
        sys.exit(run_with_proxy(code, worker))
    os.execv(sys.executable, commands.launching(worker))  # noqa: S606 - a program of this package


if __name__ == "__main__":
    main()
