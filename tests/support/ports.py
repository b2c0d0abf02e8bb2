"""Ports of loopback for servers under test that keep their address over several lives.

Most tests let a server listen on port 0. If its address must be known before, or stay the same after a
restart, the test claims a port here. A claim is a name in the abstract namespace of Linux, which all test
processes of this host share, and a bound socket that never listens. Servers can bind the same port, because
they set SO_REUSEADDR; programs that do not set it cannot, and the kernel gives it to no program that asks for
any port.
"""

from __future__ import annotations

import random
import socket
from collections import deque
from typing import Final

PORTS: Final = range(20_000, 32_000)
"""Below the ports that outgoing connections take: none of them can sit on a port between two lives."""

CLAIMS_MAX: Final = 200
"""Claims that a process keeps, the newest: those of tests that have ended long ago are given back."""

_claims: Final[deque[tuple[socket.socket, socket.socket]]] = deque()


def free_ports(count: int) -> list[int]:
    """Return `count` ports where no program listens, and that no other test is given."""
    found: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        if _claim(port):
            found.append(port)
        if len(found) == count:
            return found
    raise AssertionError(f"no {count} ports of {PORTS} are free")


def free_urls(count: int) -> list[str]:
    """Return the addresses of `free_ports`."""
    return [f"http://127.0.0.1:{port}" for port in free_ports(count)]


def _claim(port: int) -> bool:
    """Return whether `port` was free, and is now claimed by this process."""
    name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    holder = socket.socket()
    # As servers do it, so that a port with old connections in TIME_WAIT counts as free.
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        name.bind(f"\0kalends-tests-{port}")
        holder.bind(("127.0.0.1", port))
    except OSError:
        name.close()
        holder.close()
        return False
    _claims.append((name, holder))
    if len(_claims) > CLAIMS_MAX:
        for each in _claims.popleft():
            each.close()
    return True
