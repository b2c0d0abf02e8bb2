"""The zygote: a small program that has loaded all that a shepherd needs, and forks one for each order.

It belongs to one life of the server, and ends with it; its shepherds do not notice. An order comes as a
message with the attempt's name and, as a descriptor, a file in memory that holds the rest. The zygote says
the name back once a shepherd has been forked for it, or was free for it, or could not be: from then on, an
empty record without a lock means that nothing has begun.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pwd
import signal
import socket
import sys
from typing import Final, NoReturn

from kalends.batch.shepherds import linux, shepherd
from kalends.batch.shepherds.folders import Folders
from kalends.batch.shepherds.order import ORDER_BYTES_MAX, JobOrder, decode_order
from kalends.batch.shepherds.spares import ATTEMPTS_MAX, FREE, Spares

NAME_BYTES_MAX: Final = 64
READY: Final = b"ready"


def main(descriptor: int, top: str, groups: str) -> NoReturn:
    """Serve the launcher at `descriptor` until it goes away; `top` is the folder of the machine's jobs."""
    requests = socket.socket(fileno=descriptor)
    linux.close_all_but((descriptor,))
    linux.default_signals()
    # Whoever has gone away shows by an error, not by our death; and nobody waits for shepherds.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    linux.prctl(linux.PR_SET_NAME, b"kalends zygote")
    os.umask(0o077)
    _load()
    gc.collect()
    gc.disable()
    gc.freeze()
    linux.trim_memory()
    try:
        _serve(requests, Folders(top), groups)
    except ConnectionError:
        # The server has been killed.
        os._exit(0)


def _load() -> None:
    """Have what every shepherd or program would load or look up for itself."""
    linux.boot_id()
    # The libraries that find users: what is known of these is asked for anew each time.
    with contextlib.suppress(KeyError):
        me = pwd.getpwuid(os.geteuid())
        os.getgrouplist(me.pw_name, me.pw_gid)


def _serve(requests: socket.socket, folders: Folders, groups: str) -> NoReturn:
    requests.send(READY)
    spares = Spares(requests)
    while True:
        spares.until_request()
        name, descriptors, _, _ = socket.recv_fds(
            requests, NAME_BYTES_MAX, 1, socket.MSG_CMSG_CLOEXEC
        )
        if not name:
            os._exit(0)
        if not spares.hand_over(name, descriptors):
            _fork_shepherd(spares, descriptors[0], folders, groups)
        requests.send(name)
        for each in descriptors:
            os.close(each)


def _fork_shepherd(spares: Spares, descriptor: int, folders: Folders, groups: str) -> None:
    """Fork a shepherd, unless there is no room for a process."""
    line = spares.open_line()
    try:
        pid = os.fork()
    except OSError:
        pid = -1
    if pid == 0:
        _be_shepherd(descriptor, line, folders, groups)
    if line is not None:
        line.close()


def _be_shepherd(
    descriptor: int, line: socket.socket | None, folders: Folders, groups: str
) -> NoReturn:
    try:
        os.setsid()
        linux.close_all_but((descriptor, -1 if line is None else line.fileno()))
        linux.default_signal(signal.SIGCHLD)
        for others in reversed(range(ATTEMPTS_MAX)):
            order: JobOrder = decode_order(os.pread(descriptor, ORDER_BYTES_MAX, 0))
            os.close(descriptor)
            if not shepherd.tend(order, folders, groups) or line is None or not others:
                break
            linux.prctl(linux.PR_SET_NAME, b"kalends spare")
            line.send(FREE)
            name, descriptors, _, _ = socket.recv_fds(
                line, NAME_BYTES_MAX, 1, socket.MSG_CMSG_CLOEXEC
            )
            if not name:
                break
            descriptor = descriptors[0]
    except ConnectionError:
        # The zygote has gone.
        pass
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(0)
