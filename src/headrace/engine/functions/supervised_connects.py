"""Connects of a confined worker, which its kernel reports here (ADR 78): a socket of the worker is connected from outside, or refused.

The worker's thread waits in its system call `connect`. Its memory is hostile and changes at any time: the address is read once, judged, and
the same bytes are used. Its descriptor is duplicated before that, so that what it stands for does not change either.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import select
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address

_LIBC = ctypes.CDLL(None, use_errno=True)
_PIDFD_GETFD = 438
_RECEIVE, _SEND, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
"""Requests to a listener of seccomp."""
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
"""Its id, the thread and flags; number and architecture of the call, where it is, and its six arguments."""
_ANSWER = struct.Struct("=QqiI")
_AT_ONCE = 16
"""Connects of a worker that wait for their hosts; further ones wait for these."""
_FAMILY = struct.Struct("=H")
_IP_4, _IP_6 = struct.Struct("!2xH4s"), struct.Struct("!2xH4x16s")
_ADDRESS_BYTES_MAX = 128


class SupervisedConnects:
    """The connects of a process; `permits` judges an address in its canonical spelling and a port. Closes the listener at the end."""

    def __init__(self, listener: int, process: int, permits: Callable[[str, int], bool]) -> None:
        self._listener = listener
        self._process = process
        try:
            self._handle = os.pidfd_open(process)
        except OSError:
            os.close(listener)
            raise
        self._permits = permits
        self._slots = threading.BoundedSemaphore(_AT_ONCE)

    def serve(self) -> None:
        """Answer until the process has ended. Blocks."""
        events = select.poll()
        events.register(self._listener, select.POLLIN)
        try:
            while any(event & select.POLLIN for _, event in events.poll()):
                self._slots.acquire()
                notification = bytearray(_NOTIFICATION.size)
                try:
                    fcntl.ioctl(self._listener, _RECEIVE, notification)
                except OSError:
                    # The thread has left its call in the meantime.
                    self._slots.release()
                    continue
                threading.Thread(target=self._answer, args=(bytes(notification),), daemon=True).start()
        finally:
            # Those that still connect use the descriptors.
            for _ in range(_AT_ONCE):
                self._slots.acquire()
            os.close(self._listener)
            os.close(self._handle)

    def _answer(self, notification: bytes) -> None:
        number, _, _, _, _, _, descriptor, pointer, length, *_ = _NOTIFICATION.unpack(notification)
        try:
            failure = self._connect(number, descriptor & 0xFFFFFFFF, pointer, length & 0xFFFFFFFF)
        except (OSError, OverflowError) as error:
            failure = (error.errno if isinstance(error, OSError) else None) or errno.EFAULT
        with suppress(OSError):
            fcntl.ioctl(self._listener, _SEND, _ANSWER.pack(number, 0, -failure, 0))
        self._slots.release()

    def _connect(self, number: int, descriptor: int, pointer: int, length: int) -> int:
        """Return the number of the error, 0 without one. Raises OSError."""
        with open(f"/proc/{self._process}/mem", "rb", buffering=0) as memory:
            address = os.pread(memory.fileno(), min(length, _ADDRESS_BYTES_MAX), pointer)
        with self._duplicate(descriptor) as opened:
            # Until now, the number of the process could have been given to another one.
            fcntl.ioctl(self._listener, _IS_VALID, struct.pack("=Q", number))
            family = _FAMILY.unpack_from(address.ljust(2, b"\0"))[0]
            if family != opened.family or opened.type != socket.SOCK_STREAM:
                return errno.EAFNOSUPPORT
            parts = _IP_4 if family == socket.AF_INET else _IP_6
            if family not in (socket.AF_INET, socket.AF_INET6) or len(address) < parts.size:
                return errno.EINVAL
            port, packed = parts.unpack_from(address)
            host = IPv4Address(packed) if family == socket.AF_INET else IPv6Address(packed)
            mapped = host.ipv4_mapped if isinstance(host, IPv6Address) else None
            if not self._permits(str(mapped or host), port):
                return errno.EACCES
            return opened.connect_ex((str(host), port))

    def _duplicate(self, descriptor: int) -> socket.socket:
        """Return the worker's socket itself under a descriptor of this process. Raises OSError."""
        own = _LIBC.syscall(_PIDFD_GETFD, self._handle, descriptor, 0)
        if own < 0:
            raise OSError(ctypes.get_errno(), "pidfd_getfd is refused")
        try:
            return socket.socket(fileno=own)
        except OSError:
            os.close(own)
            raise
