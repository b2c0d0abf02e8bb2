"""The zygote: a small program that has loaded all that a shepherd needs, and forks one for each order.

It belongs to one life of the server, and ends with it; its shepherds do not notice. An order comes as a
message with the attempt's name and, as a descriptor, a file in memory that holds the rest. The zygote says
the name back once the shepherd has been forked, or could not be: from then on, an empty record without a
lock means that nothing has begun.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import traceback
from typing import Final, NoReturn

from kalends.batch.shepherds import linux, shepherd
from kalends.batch.shepherds.folders import Folders
from kalends.batch.shepherds.order import ORDER_BYTES_MAX, JobOrder, decode_order

NAME_BYTES_MAX: Final = 64
READY: Final = b"ready"


def main(descriptor: int, top: str, groups: str) -> NoReturn:
    """Serve the launcher at `descriptor` until it goes away; `top` is the folder of the machine's jobs."""
    requests = socket.socket(fileno=descriptor)
    linux.close_all_but((descriptor,))
    linux.default_signals()
    # Whoever has gone away shows by an error, not by our death.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    linux.prctl(linux.PR_SET_NAME, b"kalends zygote")
    os.umask(0o077)
    gc.collect()
    gc.disable()
    gc.freeze()
    try:
        _serve(requests, Folders(top), groups)
    except ConnectionError:
        # The server has been killed.
        os._exit(0)


def _serve(requests: socket.socket, folders: Folders, groups: str) -> NoReturn:
    requests.send(READY)
    while True:
        name, descriptors, _, _ = socket.recv_fds(
            requests, NAME_BYTES_MAX, 1, socket.MSG_CMSG_CLOEXEC
        )
        if not name:
            os._exit(0)
        _fork_shepherd(requests, descriptors, folders, groups)
        requests.send(name)
        for each in descriptors:
            os.close(each)


def _fork_shepherd(
    requests: socket.socket, descriptors: list[int], folders: Folders, groups: str
) -> None:
    """Fork twice, so that nobody here has to wait for the shepherd. There may be no room for a process."""
    try:
        pid = os.fork()
    except OSError:
        return
    if pid == 0:
        status = 1
        try:
            if os.fork() == 0:
                os.setsid()
                requests.close()
                _be_shepherd(descriptors[0], folders, groups)
            status = 0
        finally:
            os._exit(status)
    os.waitpid(pid, 0)


def _be_shepherd(descriptor: int, folders: Folders, groups: str) -> NoReturn:
    try:
        order: JobOrder = decode_order(os.pread(descriptor, ORDER_BYTES_MAX, 0))
        os.close(descriptor)
        shepherd.tend(order, folders, groups)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(0)
