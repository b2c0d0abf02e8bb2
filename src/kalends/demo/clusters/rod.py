"""The heat of a rod, one part on each rank: after every step neighbours tell each other their ends.

The ranks need not be of one machine: each listens on a port of its own. When all are connected, the first
names a second, and all begin in it. In the end it has all parts, and prints their digest: that of one
process that computes the whole rod alone.

    python rod.py PORT RANKS FIRST    where FIRST is the first rank of this machine
"""

from __future__ import annotations

import hashlib
import os
import socket
import struct
import sys
import time
from collections.abc import Sequence
from typing import Final

CELLS_EACH: Final = 50
STEPS: Final = 400
CONNECT_S_MAX: Final = 90.0
HOT, COLD = 100.0, 0.0


def cells_of(rank: int) -> list[float]:
    """Return a part of the rod as it is before the first step."""
    return [float((rank * CELLS_EACH + cell) % 7) for cell in range(CELLS_EACH)]


def stepped(cells: Sequence[float], left: float, right: float) -> list[float]:
    padded = [left, *cells, right]
    return [
        (padded[at - 1] + 2 * padded[at] + padded[at + 1]) / 4 for at in range(1, len(padded) - 1)
    ]


def digest(cells: Sequence[float]) -> str:
    return hashlib.sha256(struct.pack(f"<{len(cells)}d", *cells)).hexdigest()[:12]


def alone(ranks: int) -> str:
    """Return the digest of the whole rod, computed without ranks."""
    cells = [cell for rank in range(ranks) for cell in cells_of(rank)]
    for _ in range(STEPS):
        cells = stepped(cells, HOT, COLD)
    return digest(cells)


class Neighbour:
    """A line to the rank on one side."""

    def __init__(self, line: socket.socket) -> None:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line.settimeout(CONNECT_S_MAX)
        self._line = line

    def tell(self, *numbers: float) -> None:
        self._line.sendall(struct.pack(f"<{len(numbers)}d", *numbers))

    def hear(self, count: int = 1) -> tuple[float, ...]:
        said = b""
        while len(said) < 8 * count:
            more = self._line.recv(8 * count - len(said))
            if not more:
                raise SystemExit("a neighbour has gone")
            said += more
        return struct.unpack(f"<{count}d", said)


def neighbours(port: int, rank: int, ranks: int) -> tuple[Neighbour | None, Neighbour | None]:
    """Return the connections to both sides, as far as they exist."""
    with socket.create_server(("127.0.0.1", port + rank)) as server:
        server.settimeout(CONNECT_S_MAX)
        right = _called(port + rank + 1) if rank + 1 < ranks else None
        left = Neighbour(server.accept()[0]) if rank else None
    return left, right


def _called(port: int) -> Neighbour:
    until_s = time.monotonic() + CONNECT_S_MAX
    while True:
        try:
            return Neighbour(socket.create_connection(("127.0.0.1", port)))
        except ConnectionRefusedError:
            if time.monotonic() > until_s:
                raise
            time.sleep(0.05)


def begun(left: Neighbour | None, right: Neighbour | None) -> float:
    """Return the second in which all begin, when it has come."""
    if right:
        right.hear()
    if left:
        left.tell(0.0)
        (start_s,) = left.hear()
    else:
        start_s = float(int(time.time()) + 2)
    if right:
        right.tell(start_s)
    time.sleep(max(0.0, start_s - time.time()))
    return start_s


def run(rank: int, left: Neighbour | None, right: Neighbour | None) -> list[float]:
    """Return this rank's cells after the last step."""
    cells = cells_of(rank)
    for _ in range(STEPS):
        if left:
            left.tell(cells[0])
        if right:
            right.tell(cells[-1])
        before = left.hear()[0] if left else HOT
        behind = right.hear()[0] if right else COLD
        cells = stepped(cells, before, behind)
    return cells


def main(port: int, ranks: int, first: int) -> None:
    rank = first + int(os.environ.get("SLURM_PROCID", "0"))
    node = os.environ.get("SLURMD_NODENAME", socket.gethostname())
    left, right = neighbours(port, rank, ranks)
    start_s = begun(left, right)
    cells = run(rank, left, right)
    print(
        f"rank {rank} on {node}: {STEPS} steps from {time.strftime('%X', time.gmtime(start_s))} UTC"
    )
    if right:
        cells += right.hear((ranks - rank - 1) * CELLS_EACH)
    if left:
        left.tell(*cells)
    else:
        print(f"the whole rod is {digest(cells)}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
