"""A process that has loaded a server and forks one for each line that it is sent: run by `forked`.

To load a server takes longer than most tests need it. What is forked goes on as ``python -m kalends
serve`` does once all is loaded: with standard streams, a folder and an environment of its own, and nothing
else that is open.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import socket
import sys
from typing import Final

# As `kalends.__main__`, with all that any server is made of.
gc.disable()
import kalends.cli.serve  # noqa: E402
import kalends.cli.servers.server  # noqa: E402
import kalends.servers.broker  # noqa: E402
import kalends.servers.virtual  # noqa: E402, F401
from kalends.cli import main as run  # noqa: E402

gc.freeze()
gc.enable()

ORDER_BYTES_MAX: Final = 1 << 18
FIRST_OF_OTHERS: Final = 3
"""The first descriptor that is no standard stream."""


def main(channel: socket.socket) -> None:
    """Fork until `channel` is closed, and return then; return in each child, too.

    An order is ``[words of the command, folder, environment]``, with descriptors for the standard output, the
    standard error, and for what is said of the child: its process id, and once it has ended, how.
    """
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    children: dict[int, tuple[int, int]] = {}
    while True:
        for ready, _ in poll.poll():
            if ready == channel.fileno():
                order, descriptors, _, _ = socket.recv_fds(channel, ORDER_BYTES_MAX, 3)
                if not order:
                    sys.exit(0)
                out, errors, told = descriptors
                pid = os.fork()
                if pid == 0:
                    _become(order, out, errors)
                    return
                _tell(told, pid)
                os.close(out)
                os.close(errors)
                ended = os.pidfd_open(pid)
                children[ended] = pid, told
                poll.register(ended, select.POLLIN)
            else:
                pid, told = children.pop(ready)
                poll.unregister(ready)
                os.close(ready)
                _, status = os.waitpid(pid, 0)
                _tell(told, os.waitstatus_to_exitcode(status))
                os.close(told)


def _tell(told: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # Whoever has asked does not want to know any more.
        os.write(told, b"%d\n" % number)


def _become(order: bytes, out: int, errors: int) -> None:
    words, folder, environment = json.loads(order)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in enumerate((nothing, out, errors)):
        os.dup2(descriptor, number)
    os.closerange(FIRST_OF_OTHERS, os.sysconf("SC_OPEN_MAX"))
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[:] = words


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[-1])))
    sys.exit(run())
