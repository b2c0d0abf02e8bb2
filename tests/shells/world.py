"""One run: everything that happens in it, in an order that its seed decides."""

from __future__ import annotations

import asyncio
import hashlib
import random
import sqlite3
from collections import deque
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import greenlet

from tests.shells import stage, substitutes
from tests.shells.disk import Disk, close_descriptor
from tests.shells.event_loop import Loop
from tests.shells.network import Network
from tests.shells.nodes import Node

T = TypeVar("T")

TAIL_MAX = 400
ASTRAY_S = 3_600.0


class World:
    """`folder` holds one folder for each host, its disk. `keep`: the whole trace is kept."""

    def __init__(self, seed: int, folder: Path, *, keep: bool = False) -> None:
        stage.enter(self)
        substitutes.begin(seed)
        self.seed = seed
        self.folder = folder
        self.chance = random.Random(f"world {seed}")
        """What the world draws: delays, and what a disk forgets."""
        self.hub = greenlet.getcurrent()
        self.loop = Loop(self)
        self.network = Network(self)
        self.disk = Disk(self)
        self.nodes: dict[str, Node] = {}
        self.clocks_were_wrong = False
        self.clocks_were_astray = False
        """By so much that whatever they gave order to may be out of order."""
        self.events = 0
        self.trace: deque[str] = deque(maxlen=None if keep else TAIL_MAX)
        self.on_commit: list[Callable[[Node, sqlite3.Connection, str], None]] = []
        """Told of each transaction that a node has committed, on which connection to which database."""
        self.on_death: list[Callable[[Node], None]] = []
        self._chance_of_nodes = random.Random(f"nodes {seed}")
        self._digest = hashlib.sha256()
        self._former: list[Node] = []

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        asyncio.set_event_loop(self.loop)
        return self.loop.run_until_complete(work)

    def note(self, *what: object) -> None:
        """One line of the trace: everything that happens ends here."""
        line = f"{self.loop.now_s:.6f} {' '.join(map(str, what))}"
        self.events += 1
        self._digest.update(line.encode("utf-8", "backslashreplace") + b"\n")
        self.trace.append(line)

    @property
    def trace_hash(self) -> str:
        return self._digest.hexdigest()

    def random_bytes(self, count: int) -> bytes:
        """What the nodes' systems call random."""
        return self._chance_of_nodes.randbytes(count)

    def committed(self, connection: sqlite3.Connection, database: str) -> None:
        node = stage.NODE.get()
        if node is not None:
            for told in self.on_commit:
                told(node, connection, database)

    # Processes

    def node(self, name: str, address: str, host: str = "") -> Node:
        """A process begins: `name` names it, also at its next start."""
        if name in self.nodes:
            self._former.append(self.nodes[name])
        node = self.nodes[name] = Node(self, name, address, host or name)
        self.note("begins", name)
        return node

    def is_dark(self, address: str) -> bool:
        """The host at `address` has no power, or no network any more."""
        return any(node.address == address and node.dark for node in self.nodes.values())

    def kill(self, name: str, *, dark: bool = False) -> None:
        """As kill -9; `dark`: the host goes too, and nobody is told."""
        node = self.nodes[name]
        if node.dead:
            return
        self.note("killed", name, dark)
        node.dead, node.dark = True, dark
        for told in self.on_death:
            told(node)
        for address in node.listens_at:
            self.network.listening.pop(address, None)
        self._let_go_of_files(node)
        for transport in node.transports:
            if not transport.lost:
                self.network.died(transport)

    def _let_go_of_files(self, node: Node) -> None:
        """SQLite thinks in real processes: what stays open would lend its locks to the successor."""
        for connection in node.connections:
            try:
                node.context.copy().run(connection.close)
            except Exception as error:
                self.note("close", node.name, error)
        for descriptor in sorted(node.descriptors):
            close_descriptor(descriptor)
        node.descriptors.clear()

    def pause(self, name: str) -> None:
        """The process stands still, as after SIGSTOP."""
        self.note("pauses", name)
        self.nodes[name].paused = True

    def resume(self, name: str) -> None:
        node = self.nodes[name]
        if node.paused:
            self.note("resumes", name)
            node.paused = False
            held, node.held = node.held, []
            self.loop.resume(held)

    def set_clock(self, name: str, error_s: float) -> None:
        """The wall clock of `name` jumps to `error_s` ahead of true time."""
        self.note("clock", name, error_s)
        self.clocks_were_wrong = self.clocks_were_wrong or bool(error_s)
        self.clocks_were_astray = self.clocks_were_astray or abs(error_s) > ASTRAY_S
        self.nodes[name].clock_error_s = error_s

    # Hosts

    def disk_of(self, host: str) -> Path:
        return self.folder / host

    def on_host(self, host: str) -> list[str]:
        """The processes that live on `host`."""
        return [name for name, node in self.nodes.items() if node.host == host and not node.dead]

    def power_fails(self, host: str) -> None:
        """All processes of the host end, nobody is told, and its disk forgets what was not synced."""
        for name in self.on_host(host):
            self.kill(name, dark=True)
        lost = self.disk.lose_unsynced(self.disk_of(host))
        self.note("power fails", host, lost)
