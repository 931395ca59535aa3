"""The process of a compute pool. See the package."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import FrameType

from headrace.core.errors import HeadraceError, UserError
from headrace.engine.driver.channel import Channel, ChannelClosedError
from headrace.engine.driver.connections import TlsStream, connect_locally, connect_securely
from headrace.engine.driver.kubernetes import read_bucket_login
from headrace.engine.driver.options import DriverOptions
from headrace.engine.driver.outliving import OutlivingChannel, hold_lock
from headrace.engine.driver_folder import LEASE_MARGIN_S, DriverFolder
from headrace.engine.protocol import DRIVER_FAILED, DRIVER_REFUSED, Ready
from headrace.runtime.spark_jvm import kill_spark_jvm

_STOP_SECONDS = 10.0


class _Terminated(BaseException):
    """SIGTERM arrived."""


def main() -> int:
    """Start Spark, say so, serve; returns the exit code."""
    started = time.monotonic()
    parser = argparse.ArgumentParser(prog="headrace.engine.driver", description=__doc__)
    servers = parser.add_mutually_exclusive_group(required=True)
    servers.add_argument("--socket", type=Path, help="the server's Unix socket")
    servers.add_argument("--server", metavar="HOST:PORT", help="the server's port for drivers")
    parser.add_argument(
        "--credentials", type=Path, default=Path(), help="for --server: the folder of token and certificate"
    )
    parser.add_argument("--options", default="{}", help="JSON of engine.driver.options.DriverOptions")
    arguments = parser.parse_args()
    logging.basicConfig(
        level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    options = _options(arguments.options)
    # Ctrl-C in the server's terminal reaches this process too; the server ends it in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _terminate)
    serving = threading.Event()
    try:
        channel = _channel(arguments, options, serving)
    except OSError as error:
        logging.getLogger(__name__).error("cannot connect to the server: %s", error)
        return 1
    return _serve(channel, options, started, serving)


def _channel(arguments: argparse.Namespace, options: DriverOptions, serving: threading.Event) -> Channel:
    """Return the connection to the server. Raises OSError."""
    outlive = options.outlive
    if arguments.server is not None:
        server, credentials = arguments.server, arguments.credentials
        read_bucket_login(credentials)
        stream = connect_securely(server, credentials)
        threading.Thread(target=_end_with_server, args=(stream, serving), daemon=True).start()
        if outlive is None:
            return Channel(stream)
        return OutlivingChannel(stream, lambda: connect_securely(server, credentials, retries_s=0), outlive)
    path = arguments.socket.resolve()
    if outlive is None or outlive.folder is None:
        return Channel(connect_locally(path))
    token = DriverFolder(outlive.folder).token
    return OutlivingChannel(connect_locally(path, token), lambda: connect_locally(path, token), outlive)


def _serve(channel: Channel, options: DriverOptions, started: float, serving: threading.Event) -> int:
    # Imported late: a wrong command line is answered without loading Spark.
    from headrace.engine.driver.service import DriverService
    from headrace.engine.driver.session import await_executors, start_session, throw_away_rows, warm_up

    service: DriverService | None = None
    stopping = False
    try:
        folder = options.outlive.folder if options.outlive is not None else None
        inherited = [hold_lock(folder)] if folder is not None else []
        session = start_session(options, jvm_ended=_end_with_jvm, inherited=inherited)
        rows = throw_away_rows(session) if options.warm_up else None
        await_executors(session, options)
        if rows is not None:
            warm_up(rows, options.work_dir)
        service = DriverService(session, channel, options)
        took = int((time.monotonic() - started) * 1000)
        channel.send(Ready(pid=os.getpid(), spark_version=session.version, start_ms=took))
        serving.set()
        stopping = service.run()
    except _Terminated:
        stopping = True
    except ChannelClosedError:
        pass
    except HeadraceError as error:
        # One line, since the server reads one.
        reason = f"{error.message}. {error.hint}" if error.hint else error.message
        logging.getLogger(__name__).error("%s%s", DRIVER_FAILED, reason)
        return DRIVER_REFUSED if isinstance(error, UserError) else 1
    finally:
        if stopping and service is not None:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            _end_at_last()
            service.stop_all(_STOP_SECONDS)
        kill_spark_jvm()
    return 0


def _end_at_last() -> None:
    """End the process within bounded time, even if Spark does not end: in a pod without a server, nobody else does."""
    timer = threading.Timer(LEASE_MARGIN_S, os._exit, (1,))
    timer.daemon = True
    timer.start()


def _end_with_server(stream: TlsStream, serving: threading.Event) -> None:
    """End the process if the server is gone before it is served: the start waits for executors, and no guard is in a pod."""
    stream.wait_end()
    if not serving.is_set():
        os.kill(os.getpid(), signal.SIGTERM)


def _end_with_jvm(code: int) -> None:
    """End the process: nothing works without the JVM, calls that wait for it may never return, and the server starts another driver."""
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    logging.getLogger(__name__).error("%sthe JVM of Spark %s", DRIVER_FAILED, how)
    sys.stderr.flush()
    os._exit(1)


def _options(text: str) -> DriverOptions:
    from pydantic_core import from_json

    values = from_json(text)
    if "work_dir" not in values:
        values["work_dir"] = tempfile.mkdtemp(prefix="headrace-driver-")
    return DriverOptions.model_validate(values)


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise _Terminated


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # Not sys.exit: threads that wait for the JVM, which is gone, must not keep the process.
    os._exit(code)
