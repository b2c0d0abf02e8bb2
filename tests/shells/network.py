"""TCP between simulated processes: bytes arrive in order, late, or the connection breaks.

A partition stalls what is under way, in one direction or both, until it heals. A reader that does not
read stops its writer. Whose process dies is known to its peers by a reset; whose host dies, by silence.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import weakref
import zlib
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tests.shells.stage import NOBODY, NODE

if TYPE_CHECKING:
    from tests.shells.nodes import Node
    from tests.shells.world import World

Address = tuple[str, int]
Protocol = Any
"""An `asyncio.Protocol`; aiohttp's are not declared as such."""

UNREAD_BYTES_MAX: Final = 65_536
SLOW: Final = 200
"""A slow delivery takes so many times as long."""

RETRY_S: Final = 1.0


class Ending:
    """The last thing on a connection: its regular end, or with `error` its breaking."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error


class Transport(asyncio.Transport):
    """One end of a connection, that of `node`."""

    def __init__(self, network: Network, node: Node, here: Address, there: Address) -> None:
        super().__init__({"sockname": here, "peername": there, "socket": None})
        self.node = node
        self.peer: Transport
        self.lost = False
        self.underway: deque[bytes | Ending] = deque()
        """What the peer has sent and has not arrived."""
        self.unread_bytes = 0
        self.writing_paused = False
        self.protocol: Protocol = None
        self.context = node.context.copy()
        self._network = network
        self._arrived: deque[bytes | Ending] = deque()
        self._closing = False
        self._reading_paused = False
        node.transports.append(self)

    def get_protocol(self) -> Protocol:
        return self.protocol

    def set_protocol(self, protocol: Protocol) -> None:
        self.protocol = protocol

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return not self._reading_paused

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return self.peer.unread_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        self._reading_paused = False
        self._network.loop.call_soon(self.take_arrived, context=self.context)

    def write(self, data: Any) -> None:
        if not data or self._closing:
            return
        self._network.send(self, bytes(data))
        if self.peer.unread_bytes > UNREAD_BYTES_MAX and not self.writing_paused:
            self.writing_paused = True
            self.protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        self._end(Ending())

    def abort(self) -> None:
        self._end(Ending(_reset()))

    def shutdown(self, how: int) -> None:
        """As that of a socket that was accepted."""
        self.abort()

    def _end(self, ending: Ending) -> None:
        if self._closing:
            return
        self._closing = True
        self._network.send(self, ending)
        self._network.loop.call_soon(self.lose, None, context=self.context)

    def lose(self, error: Exception | None) -> None:
        """The connection is over at this end."""
        if not self.lost:
            self.lost = self._closing = True
            if self.protocol is not None:
                self.protocol.connection_lost(error)

    def arrive(self) -> None:
        """The next of what is under way is here."""
        if self.underway:
            self._arrived.append(self.underway.popleft())
            self.take_arrived()

    def take_arrived(self) -> None:
        """Hand on what has arrived, as far as the reader reads."""
        while self._arrived and not self.lost and self.protocol is not None:
            first = self._arrived[0]
            if isinstance(first, bytes) and self._reading_paused:
                return
            self._arrived.popleft()
            if isinstance(first, Ending):
                self._take_ending(first)
            else:
                self._take_bytes(first)

    def _take_ending(self, ending: Ending) -> None:
        if ending.error is not None:
            self.lose(ending.error)
        elif not self._closing and not self.protocol.eof_received():
            self.close()

    def _take_bytes(self, data: bytes) -> None:
        self.unread_bytes -= len(data)
        self._network.world.note("takes", self.node.name, len(data), zlib.crc32(data))
        peer = self.peer
        if peer.writing_paused and self.unread_bytes < UNREAD_BYTES_MAX // 4 and not peer.lost:
            peer.writing_paused = False
            self._network.loop.call_soon(peer.protocol.resume_writing, context=peer.context)
        self.protocol.data_received(data)


class Listener:
    """A listening socket; who has connected waits until the process accepts it."""

    def __init__(self, network: Network, address: Address) -> None:
        self._network = network
        self._address = address
        self._arrived: asyncio.Queue[Transport] = asyncio.Queue()

    def setblocking(self, flag: bool) -> None:
        pass

    def getsockname(self) -> Address:
        return self._address

    def close(self) -> None:
        self._network.listening.pop(self._address, None)

    def arrive(self, transport: Transport) -> None:
        """Let `transport` be accepted."""
        self._arrived.put_nowait(transport)

    async def accept(self) -> tuple[Transport, Address]:
        """As `socket.accept`; the transport stands for the socket, too."""
        transport = await self._arrived.get()
        return transport, transport.get_extra_info("peername")


class Network:
    """`delay_s` bounds what a delivery takes, of which the part `slow` is slow."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.loop = world.loop
        self.listening: dict[Address, tuple[Listener, Node]] = {}
        self.delay_s = (0.0002, 0.002)
        self.slow = 0.0
        self._cut: set[tuple[str, str]] = set()
        self._stalled: list[Transport] = []
        self._accepting: weakref.WeakKeyDictionary[socket.socket, Address] = (
            weakref.WeakKeyDictionary()
        )
        self._last_port = 40_000

    # Faults

    def cut(self, one: str, other: str, *, both: bool = True) -> None:
        """Nothing goes from `one` to `other`, or back if `both`, until `heal`."""
        self.world.note("cut", one, other, both)
        self._cut.add((one, other))
        if both:
            self._cut.add((other, one))

    def heal(self) -> None:
        """Everything that was stalled goes on its way."""
        self.world.note("heal")
        self._cut.clear()
        stalled, self._stalled = self._stalled, []
        for source in stalled:
            self._schedule(source)

    def reset(self, one: str, other: str) -> None:
        """Break all connections between the two; what is under way is lost, and both hear of it."""
        self.world.note("reset", one, other)
        for transport in self.world.nodes[one].transports:
            if not transport.lost and transport.peer.node.name == other:
                self.break_off(transport)

    def break_off(self, transport: Transport) -> None:
        """Break one connection."""
        for side in (transport, transport.peer):
            side.underway.clear()
            self.loop.call_soon(side.lose, _reset(), context=side.context)

    def between(self, one: str, other: str) -> list[Transport]:
        """The ends at `one` of the living connections with `other`."""
        ends = self.world.nodes[one].transports
        return [end for end in ends if not end.lost and end.peer.node.name == other]

    # For the event loop

    def listen(self, address: Address) -> Listener:
        if address in self.listening:
            raise OSError(errno.EADDRINUSE, "address in use")
        node = NODE.get()
        assert node is not None
        listener = Listener(self, address)
        self.listening[address] = (listener, node)
        node.listens_at.add(address)
        return listener

    async def connect(self, sock: socket.socket, address: Address) -> None:
        """Return when `address` has accepted, as far as the kernels know."""
        me = NODE.get()
        assert me is not None
        await asyncio.sleep(self._draw_delay())
        while True:
            _, node = self.listening.get(address, (None, None))
            if node is not None and not self._is_cut(me, node) and not self._is_cut(node, me):
                break
            if node is None and not self.world.is_dark(address[0]):
                raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
            await asyncio.sleep(RETRY_S)
        self._accepting[sock] = address

    def connected(
        self, factory: Callable[[], Protocol], sock: socket.socket
    ) -> tuple[Transport, Protocol]:
        """The caller's end of the connection that `sock` stands for."""
        address = self._accepting.pop(sock)
        sock.close()
        me = NODE.get()
        listener, node = self.listening.get(address, (None, None))
        if me is None or listener is None or node is None:
            raise _reset()
        self._last_port += 1
        caller = (me.address, self._last_port)
        mine, theirs = Transport(self, me, caller, address), Transport(self, node, address, caller)
        mine.peer, theirs.peer = theirs, mine
        self.loop.call_soon(listener.arrive, theirs, context=theirs.context)
        mine.protocol = factory()
        mine.protocol.connection_made(mine)
        return mine, mine.protocol

    def accepted(
        self, factory: Callable[[], Protocol], transport: Transport
    ) -> tuple[Transport, Protocol]:
        """The end of whoever accepted `transport`, with a protocol of `factory`."""
        if transport.lost:
            raise _reset()
        transport.protocol = factory()
        transport.protocol.connection_made(transport)
        transport.take_arrived()
        return transport, transport.protocol

    # Deliveries

    def died(self, transport: Transport) -> None:
        """The process at this end was killed: its kernel sends what it had, then resets."""
        transport.lost = True
        peer = transport.peer
        if not transport.node.dark and not peer.node.dead:
            peer.underway.append(Ending(_reset()))
            self._schedule(transport)

    def send(self, source: Transport, what: bytes | Ending) -> None:
        target = source.peer
        if self.world.disk.refuses(source.node):
            return
        if target.node.dead:
            if not target.node.dark or not self.world.is_dark(target.node.address):
                delay_s = self._draw_delay()
                self.loop.call_later(delay_s, source.lose, _reset(), context=source.context)
            return
        if isinstance(what, bytes):
            target.unread_bytes += len(what)
        target.underway.append(what)
        self._schedule(source)

    def _schedule(self, source: Transport) -> None:
        self.loop.call_later(self._draw_delay(), self._deliver, source, context=NOBODY)

    def _deliver(self, source: Transport) -> None:
        target = source.peer
        if self._is_cut(source.node, target.node):
            self._stalled.append(source)
        else:
            self.loop.call_soon(target.arrive, context=target.context)

    def _is_cut(self, sender: Node, receiver: Node) -> bool:
        return (sender.name, receiver.name) in self._cut

    def _draw_delay(self) -> float:
        delay_s = self.world.chance.uniform(*self.delay_s)
        if self.slow and self.world.chance.random() < self.slow:
            delay_s *= SLOW
        return delay_s


def _reset() -> ConnectionResetError:
    return ConnectionResetError(errno.ECONNRESET, "reset by peer")
