"""Replaces this process by a command that can only compute (ADR 58): `python confined.py '{"command": […], "read": […], …}'`.

Landlock leaves it the files that it may read, seccomp takes away the system calls that reach anything else, and resource limits
bound the rest. All of it holds for an unprivileged process, survives `execve` and cannot be taken off. Imports the standard library only,
and is run by its path: a worker is started while a query waits.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import resource
import socket
import struct
import sys
from collections.abc import Iterator, Sequence

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
"""Numbers of the system calls, which are the same on every architecture."""
_LANDLOCK_VERSION = 1
_PATH_BENEATH = 1
_EXECUTE, _READ_FILE, _READ_FOLDER = 1 << 0, 1 << 2, 1 << 3
_RIGHTS_OF_ABI = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""How many rights to files each version of Landlock knows; later versions know those of the fifth."""
_NO_LANDLOCK = (
    "the kernel has no Landlock: it needs Linux 5.13 or newer, and landlock among its security modules"
)
_MIB = 1024 * 1024
_OPEN_FILES_MAX = 256
_ENVIRONMENT = {"LANG": "C.UTF-8", "TZ": "UTC", "ARROW_DEFAULT_MEMORY_POOL": "system"}

# Classic BPF: `seccomp_data` holds the number of the call at 0, the architecture at 4 and the arguments from 16 on.
_LOAD, _EQUAL, _GREATER, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _KILL, _REFUSE, _UNKNOWN, _NOTIFY = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026, 0x7FC00000
"""Answers: go on, end the process, EPERM, ENOSYS, and what the holder of the listener answers."""
_SECCOMP_CALL, _SET_FILTER, _NEW_LISTENER = {"x86_64": 317, "aarch64": 277}, 1, 8
_CLONE_THREAD = 0x00010000
_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_LAST_KNOWN_CALL = 451
"""Calls of later kernels do not exist for the process: nobody has judged them."""

_REFUSED = """
socket 41 198, socketpair 53 199, bind 49 200, listen 50 201, accept 43 202, accept4 288 242, connect 42 203, sendto 44 206,
sendmsg 46 211, sendmmsg 307 269, recvfrom 45 207, recvmsg 47 212, recvmmsg 299 243, fork 57 -, vfork 58 -, kill 62 129, tkill 200
130, rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240, pidfd_send_signal 424 424, pidfd_open 434 434, pidfd_getfd 438 438,
ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, process_madvise 440 440, process_mrelease 448 448, kcmp 312
272, setrlimit 160 164, setpriority 141 140, ioprio_set 251 30, shmget 29 194, shmat 30 196, shmctl 31 195, semget 64 190, semctl
66 191, semop 65 193, semtimedop 220 192, msgget 68 186, msgsnd 69 189, msgrcv 70 188, msgctl 71 187, mq_open 240 180, mq_unlink
241 181, memfd_create 319 279, memfd_secret 447 447, execveat 322 281, mount 165 40, umount2 166 39, pivot_root 155 41, chroot 161
51, unshare 272 97, setns 308 268, open_tree 428 428, move_mount 429 429, fsopen 430 430, fsconfig 431 431, fsmount 432 432,
fspick 433 433, mount_setattr 442 442, swapon 167 224, swapoff 168 225, reboot 169 142, sethostname 170 161, setdomainname 171
162, init_module 175 105, finit_module 313 273, delete_module 176 106, kexec_load 246 104, kexec_file_load 320 294, bpf 321 280,
perf_event_open 298 241, userfaultfd 323 282, io_uring_setup 425 425, io_uring_enter 426 426, io_uring_register 427 427, add_key
248 217, request_key 249 218, keyctl 250 219, fanotify_init 300 262, fanotify_mark 301 263, open_by_handle_at 304 265,
name_to_handle_at 303 264, acct 163 89, quotactl 179 60, quotactl_fd 443 443, syslog 103 116, settimeofday 164 170, clock_settime
227 112, adjtimex 159 171, clock_adjtime 305 266, personality 135 92, iopl 172 -, ioperm 173 -, modify_ldt 154 -, vhangup 153 58,
mknod 133 -, mknodat 259 33, chmod 90 -, fchmod 91 52, fchmodat 268 53, chown 92 -, fchown 93 55, lchown 94 -, fchownat 260 54,
utime 132 -, utimes 235 -, utimensat 280 88, futimesat 261 -, setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7, removexattr 197
14, lremovexattr 198 15, fremovexattr 199 16, setuid 105 146, setgid 106 144, setreuid 113 145, setregid 114 143, setresuid 117
147, setresgid 119 149, setfsuid 122 151, setfsgid 123 152, setgroups 116 159, capset 126 91
"""
"""Name and number on x86_64 and aarch64 (`-`: the architecture has no such call): sockets, other processes, shared memory, limits, mounts,
the kernel itself, and what changes files without opening them."""
_CLONE, _CLONE3, _TGKILL, _PRLIMIT = (56, 220), (435, 435), (234, 131), (302, 261)
_OF_CONNECTIONS = ("sendto", "sendmsg", "recvfrom", "recvmsg")
"""What a process may call that is passed connected sockets."""
_OPENING, _MSG_FASTOPEN = (((44, 206), 3), ((46, 211), 2)), 0x20000000
"""`sendto` and `sendmsg` with the places of their flags, and the flag by which they open a connection."""
_SOCKET, _SOCKETPAIR, _CONNECT = (41, 198), (53, 199), (42, 203)
_SUPERVISED_CALLS = ("socket", "socketpair", "connect")
_UNIX, _IP_4, _IP_6, _STREAM, _TYPE_BITS, _TCP = 1, 2, 10, 1, 0xF, 6

PASSED, SUPERVISED = "passed", "supervised"
"""Networks of a process, which has none without one of them. It is passed connected sockets and opens none; or it has sockets of its own
for TCP, and each `connect` waits for the holder of the listener, which connects the socket or refuses."""


class NotConfined(OSError):  # noqa: N818 - names what the process is
    """The kernel does not offer what confines a process."""


def confine(*, read: Sequence[str], memory_mb: int, network: str | None = None) -> int | None:
    """Confine this process and what it becomes. Raises NotConfined, after which nothing may be run.

    `read` are the files and folders that it may read and execute. `memory_mb` limits the memory that only it uses. `network` is PASSED,
    SUPERVISED or None. Returns the descriptor of the listener of a supervised network, which the process must not keep.
    """
    if _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise NotConfined(ctypes.get_errno(), "no_new_privs is not supported")
    # Private memory that can be written: a JVM reserves much more of its addresses.
    resource.setrlimit(resource.RLIMIT_DATA, (memory_mb * _MIB, memory_mb * _MIB))
    for name, most in (
        ("CORE", 0),
        ("FSIZE", 0),
        ("MEMLOCK", 0),
        ("MSGQUEUE", 0),
        ("NOFILE", _OPEN_FILES_MAX),
    ):
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))
    _restrict_files(read)
    return _restrict_calls(network)


def landlock_version() -> int:
    """Return the version of Landlock that the kernel offers; 0 without it."""
    version: int = _LIBC.syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), _LANDLOCK_VERSION)
    return max(0, version)


def obstacle() -> str | None:
    """Return why a process cannot be confined here; None if it can."""
    if sys.platform != "linux":
        return f"{sys.platform} has neither Landlock nor seccomp"
    if not landlock_version():
        return _NO_LANDLOCK
    if platform.machine() not in _ARCHITECTURES:
        return f"the numbers of the system calls of {platform.machine()} are not known"
    return None


def _restrict_files(read: Sequence[str]) -> None:
    version = landlock_version()
    if not version:
        raise NotConfined(0, _NO_LANDLOCK)
    files = (1 << _RIGHTS_OF_ABI.get(version, _RIGHTS_OF_ABI[5])) - 1
    # From version 4 on TCP, from version 6 on signals and abstract sockets are taken away as well: seccomp refuses them already.
    attributes = struct.pack("QQQ", files, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    length = 24 if version >= 6 else 16 if version >= 4 else 8
    rules = _LIBC.syscall(_LANDLOCK_CREATE, attributes, ctypes.c_size_t(length), 0)
    if rules < 0:
        raise NotConfined(ctypes.get_errno(), "Landlock refuses its rules")
    for path in read:
        try:
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        rights = _EXECUTE | _READ_FILE | (_READ_FOLDER if os.path.isdir(path) else 0)
        rule = struct.pack("=Qi", rights, handle)
        if _LIBC.syscall(_LANDLOCK_ADD, rules, _PATH_BENEATH, rule, 0):
            raise NotConfined(ctypes.get_errno(), f"Landlock refuses the rule for {path}")
        os.close(handle)
    if _LIBC.syscall(_LANDLOCK_RESTRICT, rules, 0):
        raise NotConfined(ctypes.get_errno(), "Landlock refuses to confine the process")
    os.close(rules)


def _restrict_calls(network: str | None) -> int | None:
    machine = platform.machine()
    known = _ARCHITECTURES.get(machine)
    if known is None:
        raise NotConfined(0, f"the numbers of the system calls of {machine} are not known")
    program = b"".join(_program(*known, network=network))
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))
    if network == SUPERVISED:
        listener: int = _LIBC.syscall(_SECCOMP_CALL[machine], _SET_FILTER, _NEW_LISTENER, header)
        if listener < 0:
            raise NotConfined(ctypes.get_errno(), "seccomp refuses the filter with a listener")
        return listener
    if _LIBC.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0):
        raise NotConfined(ctypes.get_errno(), "seccomp refuses the filter")
    return None


def _program(architecture: int, column: int, *, network: str | None) -> Iterator[bytes]:
    """Yield the instructions of the filter: code, how many to skip if true and if not, operand."""
    yield _step(_LOAD, _ARCHITECTURE)
    yield _step(_EQUAL, architecture, 1, 0)
    yield _step(_RETURN, _KILL)
    yield _step(_LOAD, _NUMBER)
    # The calls of x32 are above that, too.
    yield _step(_GREATER, _LAST_KNOWN_CALL, 0, 1)
    yield _step(_RETURN, _UNKNOWN)
    # The flags of clone3 are in memory, where a filter cannot read: the C library falls back to clone.
    yield _step(_EQUAL, _CLONE3[column], 0, 1)
    yield _step(_RETURN, _UNKNOWN)
    judged = {PASSED: _OF_CONNECTIONS, SUPERVISED: (*_OF_CONNECTIONS, *_SUPERVISED_CALLS)}.get(
        network or "", ()
    )
    for entry in _REFUSED.replace("\n", " ").split(","):
        name, number = entry.split()[0], entry.split()[1 + column]
        if number != "-" and name not in judged:
            yield _step(_EQUAL, int(number), 0, 1)
            yield _step(_RETURN, _REFUSE)
    if network == SUPERVISED:
        yield from _supervised(column)
    for numbers, flags in _OPENING:
        yield _step(_EQUAL, numbers[column], 0, 4)
        yield _step(_LOAD, _FIRST_ARGUMENT + 8 * flags)
        yield _step(_ANY_BIT, _MSG_FASTOPEN, 0, 1)
        yield _step(_RETURN, _REFUSE)
        yield _step(_RETURN, _ALLOW)
    # A thread may be started, a process may not.
    yield _step(_EQUAL, _CLONE[column], 0, 4)
    yield _step(_LOAD, _FIRST_ARGUMENT)
    yield _step(_ANY_BIT, _CLONE_THREAD, 1, 0)
    yield _step(_RETURN, _REFUSE)
    yield _step(_RETURN, _ALLOW)
    # A signal may reach this process only.
    yield _step(_EQUAL, _TGKILL[column], 0, 4)
    yield _step(_LOAD, _FIRST_ARGUMENT)
    yield _step(_EQUAL, os.getpid(), 1, 0)
    yield _step(_RETURN, _REFUSE)
    yield _step(_RETURN, _ALLOW)
    # Its limits may be read, not set: the address of the new ones must be 0.
    yield _step(_EQUAL, _PRLIMIT[column], 0, 8)
    yield _step(_LOAD, _FIRST_ARGUMENT)
    yield _step(_EQUAL, 0, 0, 5)
    yield _step(_LOAD, _FIRST_ARGUMENT + 16)
    yield _step(_EQUAL, 0, 0, 3)
    yield _step(_LOAD, _FIRST_ARGUMENT + 20)
    yield _step(_EQUAL, 0, 0, 1)
    yield _step(_RETURN, _ALLOW)
    yield _step(_RETURN, _REFUSE)
    yield _step(_RETURN, _ALLOW)


def _supervised(column: int) -> Iterator[bytes]:
    """Yield the instructions for the sockets of a supervised network."""
    yield _step(_EQUAL, _CONNECT[column], 0, 1)
    yield _step(_RETURN, _NOTIFY)
    # TCP by its own protocol: a socket for SCTP connects by an option, one for datagrams needs no connect.
    yield _step(_EQUAL, _SOCKET[column], 0, 11)
    yield _step(_LOAD, _FIRST_ARGUMENT)
    yield _step(_EQUAL, _IP_4, 1, 0)
    yield _step(_EQUAL, _IP_6, 0, 6)
    yield _step(_LOAD, _FIRST_ARGUMENT + 8)
    yield _step(_AND, _TYPE_BITS)
    yield _step(_EQUAL, _STREAM, 0, 3)
    yield _step(_LOAD, _FIRST_ARGUMENT + 16)
    yield _step(_EQUAL, 0, 2, 0)
    yield _step(_EQUAL, _TCP, 1, 0)
    yield _step(_RETURN, _REFUSE)
    yield _step(_RETURN, _ALLOW)
    # A JVM closes sockets by a pair, both ends of which it has itself; a pair for datagrams could send to other sockets.
    yield _step(_EQUAL, _SOCKETPAIR[column], 0, 7)
    yield _step(_LOAD, _FIRST_ARGUMENT)
    yield _step(_EQUAL, _UNIX, 0, 3)
    yield _step(_LOAD, _FIRST_ARGUMENT + 8)
    yield _step(_AND, _TYPE_BITS)
    yield _step(_EQUAL, _STREAM, 1, 0)
    yield _step(_RETURN, _REFUSE)
    yield _step(_RETURN, _ALLOW)


def _step(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, operand)


def _connected(proxy: str, launch: object) -> socket.socket:
    """Return a connection to the proxy, which the command inherits, after the first packet, which describes the process."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(proxy)
    connection.send(json.dumps(launch).encode())
    connection.set_inheritable(True)
    return connection


def main(settings: dict[str, object]) -> None:
    """Confine this process and execute the command, with no environment."""
    command = [str(part) for part in settings["command"]]  # type: ignore[attr-defined]
    if settings["confined"]:
        os.chdir("/")
        proxy, network = settings.get("proxy"), settings.get("network")
        connection = None
        if proxy is not None:
            launch = {"destinations": settings["destinations"], "supervised": network == SUPERVISED}
            connection = _connected(str(proxy), launch)
            command.append(str(connection.fileno()))
        listener = confine(
            read=[str(path) for path in settings["read"]],  # type: ignore[attr-defined]
            memory_mb=int(str(settings["memory_mb"])),
            network=None if network is None else str(network),
        )
        if listener is not None and connection is not None:
            socket.send_fds(connection, [b"{}"], [listener])
            # Who holds it answers for the kernel.
            os.close(listener)
    os.execve(command[0], command, _ENVIRONMENT)  # noqa: S606 - what the server put together


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
